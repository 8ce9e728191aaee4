"""Answers in the styles of open models, each with the program that is in it."""

from __future__ import annotations

import time

import pytest

from synthstats_lightning.programs.answers import extract_source, read_answer

MODEL = "with pm.Model() as model:\n    a = pm.Normal('a', 0, 1)\n    pm.Normal('y', a, 1, observed=y)"
OTHER = "with pm.Model() as model:\n    b = pm.Cauchy('b', 0, 1)\n    pm.Normal('y', b, 1, observed=y)"
IMPORTS = "import pymc as pm\nimport numpy as np\n"
BODY = "\n    with pm.Model() as m:\n        pm.Normal('y', 0, 1, observed=y)\n    return m"
FUNCTION = "def model(data):" + BODY
GYM = "def gen_model(observed_data):" + BODY
ASSIGNED = "model = pm.Model()\nwith model:\n    pass"
SAMPLING = "with model:\n    idata = pm.sample()"
COMMENTED = "# with pm.Model() as model:\nprint(1)"
GARBAGE = "with pm.Model() as model:\n    a\nalpha beta = pm.Normal("
EXPLAINED = "**Explanation**\n\n- `a` is the mean.\n- It has a `pm.Model()`."
CUT = "```python\nwith pm.Model() as model:\n    a = pm.N"
DOCUMENTED = '"""A model.\n\nThis is what it does: it is normal.\n"""\n' + MODEL
BLANKS = "import pymc as pm\n\n\ndata_size = 3\n\n" + MODEL
THOUGHT = "The response grows with age. Perhaps a logarithm?\nLet me try."
DRAFT = f"First I would write\n```python\n{OTHER}\n```\nbut the tails are too heavy."


def indented(source: str, by: str = "   ") -> str:
    return "\n".join(by + line for line in source.split("\n"))


def fenced(source: str, tag: str = "python", mark: str = "```") -> str:
    return f"{mark}{tag}\n{source}\n{mark}"


TRUNCATED = "```python\nwith pm.Model() as model:\n    a = pm.Nor\n\nWait, again:\n\n" + fenced(MODEL)
HARMONY = (
    "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>{answer}"
)

CASES = {
    # nothing but the program
    "plain": (MODEL, MODEL),
    "plain, ends its line": (MODEL + "\n", MODEL + "\n"),
    "plain, two statements": ("x = 1\ny = 2", "x = 1\ny = 2"),
    "empty": ("", ""),
    "fence inside a string": ("s = '```'", "s = '```'"),
    "plain, CRLF": (MODEL.replace("\n", "\r\n"), MODEL),
    "plain with a docstring of prose": (DOCUMENTED, DOCUMENTED),
    "plain with blank lines": (BLANKS, BLANKS),
    "plain with comments": (f"# A model for dugongs.\n{MODEL}", f"# A model for dugongs.\n{MODEL}"),
    "garbage stays": (GARBAGE, GARBAGE),
    # one fence
    "python": (fenced(MODEL), MODEL),
    "no tag": (fenced(MODEL, ""), MODEL),
    "py": (fenced(MODEL, "py"), MODEL),
    "Python": (fenced(MODEL, "Python"), MODEL),
    "PYTHON": (fenced(MODEL, "PYTHON"), MODEL),
    "python3": (fenced(MODEL, "python3"), MODEL),
    "pymc": (fenced(MODEL, "pymc"), MODEL),
    "ipython": (fenced(MODEL, "ipython"), MODEL),
    "attributes": (fenced(MODEL, "{.python .numberLines}"), MODEL),
    "title": (fenced(MODEL, 'python title="model.py"'), MODEL),
    "space before the tag": (fenced(MODEL, " python "), MODEL),
    "wrong tag": (fenced(MODEL, "text"), MODEL),
    "tildes": (fenced(MODEL, mark="~~~"), MODEL),
    "tildes and a tag apart": (fenced(MODEL, " Python", "~~~~"), MODEL),
    "four backticks": (fenced(MODEL, mark="````"), MODEL),
    "closed by more backticks": (f"```python\n{MODEL}\n`````", MODEL),
    "CRLF": (fenced(MODEL).replace("\n", "\r\n"), MODEL),
    "indented fence": (indented(fenced(MODEL)), MODEL),
    "indented by a tab": (indented(fenced(MODEL), "\t"), MODEL),
    "only the code is indented": (fenced(indented(MODEL, "    ")), MODEL),
    "in a list": (f"1. The model:\n\n   {indented(fenced(MODEL)).lstrip()}\n2. Done.", MODEL),
    "behind a list marker": (f"- {indented(fenced(MODEL), '  ').lstrip()}", MODEL),
    "quoted": ("\n".join(f"> {line}" for line in fenced(MODEL).split("\n")), MODEL),
    "not closed": (f"```python\n{MODEL}", MODEL),
    "not closed, no model": ("```py\nx = 1", "x = 1"),
    "closed on the last line of code": (f"```python\n{MODEL}```", MODEL),
    "opened behind prose": (f"Here it is: ```python\n{MODEL}\n```", MODEL),
    "opened by the prompt": (f"{MODEL}\n```", MODEL),
    "opened by the prompt, prose behind": (f"{MODEL}\n```\n\nThis model is simple.", MODEL),
    "tag left over": (f"python\n{MODEL}", MODEL),
    # prose around
    "prose before": (f"Sure! Here is the program:\n\n{fenced(MODEL)}", MODEL),
    "prose behind": (f"{fenced(MODEL)}\n\n{EXPLAINED}", MODEL),
    "prose and inline code": (f"Use `pm.Model()` and ```x``` as here:\n{fenced(MODEL)}\nDone.", MODEL),
    "headings": (f"### Model\n\n{fenced(MODEL)}\n\n### Notes\nNone.", MODEL),
    "no fence, prose before": (f"Here is the program:\n\n{MODEL}", MODEL),
    "no fence, prose behind": (f"{MODEL}\n\nThis model assumes that y is normal.", MODEL),
    "no fence, prose around": (
        f"I chose a normal model because\nthe response is continuous.\n\n{IMPORTS}\n{MODEL}\n\n"
        "Notes:\n1. The prior of `a` is wide.\n2. Use pm.Model() as needed.",
        f"{IMPORTS}\n{MODEL}",
    ),
    "no fence, a list behind": (f"{MODEL}\n\n- a ~ Normal(0, 1): the mean\n- sigma is fixed", MODEL),
    # several blocks
    "last one of two": (f"{fenced(OTHER)}\nBetter:\n{fenced(MODEL)}", MODEL),
    "sampling behind": (f"{fenced(MODEL)}\nThen:\n{fenced(SAMPLING)}", MODEL),
    "installation before": (f"{fenced('pip install pymc', 'bash')}\n{fenced(MODEL)}", MODEL),
    "output behind": (f"{fenced(MODEL)}\n{fenced('a  0.1  0.9', '')}", MODEL),
    "text with a model behind": (f"{fenced(MODEL)}\n{fenced('with pm.Model() as ...', 'text')}", MODEL),
    "imports apart": (f"{fenced(IMPORTS.strip())}\n{fenced(MODEL)}", MODEL),
    "the last is cut off": (f"{fenced(MODEL)}\nOr rather:\n{CUT}", MODEL),
    "the first is cut off": (TRUNCATED, MODEL),
    "a model in a comment": (f"{fenced(MODEL)}\n{fenced(COMMENTED)}", MODEL),
    "no model, last Python": (f"{fenced('x = 1', '')}\nand\n{fenced('y = 2')}", "y = 2"),
    "in Markdown": (f"````markdown\n{fenced(MODEL)}\n````", MODEL),
    "a function": (f"{fenced('x = 1')}\n{fenced(FUNCTION)}", FUNCTION),
    "BoxingGym's": (f"{fenced(GYM)}\nRun it:\n{fenced('gen_model(data)')}", GYM),
    "a model by assignment": (fenced(ASSIGNED), ASSIGNED),
    # thoughts
    "thought": (f"<think>\n{THOUGHT}\n</think>\n\n{MODEL}", MODEL),
    "empty thought": (f"<think>\n\n</think>\n\n{fenced(MODEL)}", MODEL),
    "thought with a draft": (f"<think>{DRAFT}</think>{fenced(MODEL)}", MODEL),
    "thought with a draft, no fence": (f"<think>{DRAFT}</think>\n{MODEL}", MODEL),
    "opened by the template": (f"{THOUGHT}\n</think>\n\n{fenced(MODEL)}", MODEL),
    "opened by the template, with a draft": (f"{DRAFT}\n</think>\n{MODEL}", MODEL),
    "thought with an apostrophe": (f"Let's say a = 'x' and don't ask.</think>{MODEL}", MODEL),
    "two thoughts": (f"<think>a</think>\n<think>b</think>\n{MODEL}", MODEL),
    "thought behind a word": (f"Certainly.\n<think>\n{DRAFT}\n</think>\n{fenced(MODEL)}", MODEL),
    "thought without an end": (f"<think>{THOUGHT}", ""),
    "thought without an end, with a program": (f"<think>{THOUGHT}\n{fenced(MODEL)}", MODEL),
    "THINK": (f"[THINK]{DRAFT}[/THINK]{fenced(MODEL)}", MODEL),
    "reasoning and answer": (f"<reasoning>{THOUGHT}</reasoning>\n<answer>\n{MODEL}\n</answer>", MODEL + "\n"),
    "answer with a fence": (f"<think>{THOUGHT}</think><answer>{fenced(MODEL)}</answer>", MODEL),
    "seed": (f"<seed:think>{DRAFT}</seed:think>{MODEL}", MODEL),
    "kimi": (f"◁think▷{DRAFT}◁/think▷{fenced(MODEL)}", MODEL),
    "tokens of thought and solution": (
        f"<|begin_of_thought|>{DRAFT}<|end_of_thought|>\n<|begin_of_solution|>\n{MODEL}\n<|end_of_solution|>",
        MODEL + "\n",
    ),
    "command": (f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>{MODEL}<|END_RESPONSE|>", MODEL),
    "box": (f"<think>{DRAFT}</think><|begin_of_box|>{MODEL}<|end_of_box|>", MODEL),
    "channel of thought": (f"<|channel>thought\n{DRAFT}<channel|>{fenced(MODEL)}", MODEL),
    "a closing tag in a string": (f"{MODEL}\nname = '</think>'", f"{MODEL}\nname = '</think>'"),
    # channels
    "harmony": (HARMONY.format(thought=DRAFT, answer=fenced(MODEL)), MODEL),
    "harmony, no fence": (HARMONY.format(thought=DRAFT, answer=MODEL), MODEL),
    "harmony, ended": (HARMONY.format(thought=DRAFT, answer=MODEL) + "<|return|>", MODEL),
    "harmony, commentary between": (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant"
        f"<|channel|>commentary<|message|>{fenced(OTHER)}<|end|><|start|>assistant<|channel|>final<|message|>{fenced(MODEL)}",
        MODEL,
    ),
    "harmony, only final": (f"<|channel|>final<|message|>{MODEL}", MODEL),
    "harmony, only thoughts": (f"<|channel|>analysis<|message|>{THOUGHT}", ""),
    "harmony, constrained": (f"<|channel|>final <|constrain|>python<|message|>{fenced(MODEL)}", MODEL),
}  # fmt: skip


@pytest.mark.parametrize(("text", "source"), CASES.values(), ids=CASES.keys())
def test_program_of_an_answer(text: str, source: str) -> None:
    answer = read_answer(text)
    assert answer.source == source
    assert extract_source(text) == source
    taken = text[answer.start : answer.end].replace("\r\n", "\n")
    # the span holds all words of the source, in order and nothing else but marks of a quotation
    assert [word for word in taken.split() if word != ">"] == source.split()
    assert answer.thought_end <= answer.start <= answer.end <= len(text)


def test_there_are_enough_answers() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", ["thought", "thought with a draft", "opened by the template", "harmony"])
def test_thoughts_end_before_the_program(case: str) -> None:
    text, _ = CASES[case]
    answer = read_answer(text)
    assert 0 < answer.thought_end <= answer.start
    assert read_answer(text[answer.thought_end :]).source == answer.source


@pytest.mark.parametrize(
    "piece", ["```", "<think>", "a", "\n", "`", "(", "Aa ", "~~~\n", "> ", "<|channel|>", "'''\n"]
)
def test_reading_takes_time_linear_in_the_answer(piece: str) -> None:
    def seconds(count: int) -> float:
        text, started = piece * count, time.process_time()
        read_answer(text)
        return time.process_time() - started

    assert seconds(20_000) < 0.25 + 8 * max(seconds(5_000), 1e-3)
