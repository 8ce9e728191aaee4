"""The item response model of BoxingGym with one parameter an item."""

with pm.Model() as model:
    ability = pm.Normal("ability", 0, 1, shape=6)
    difficulty = pm.Normal("difficulty", 0, 1, shape=6)
    pm.Deterministic("best_student", pt.argmax(ability))
    pm.Deterministic("difficult_question", pt.argmax(difficulty))
    pm.Bernoulli("y", logit_p=ability[student] - difficulty[question], observed=correct)
