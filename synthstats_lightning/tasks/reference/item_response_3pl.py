"""The item response model of BoxingGym with three parameters an item."""

with pm.Model() as model:
    ability = pm.Normal("ability", 0, 1, shape=6)
    difficulty = pm.Normal("difficulty", 0, 1, shape=6)
    discrimination = pm.Normal("discrimination", 0, 1, shape=6)
    guessing = pm.Uniform("guessing", 0, 1, shape=6)
    pm.Deterministic("best_student", pt.argmax(ability))
    pm.Deterministic("difficult_question", pt.argmax(difficulty))
    pm.Deterministic("discriminating_question", pt.argmax(pt.abs(discrimination)))
    solved = pm.math.invlogit(discrimination[question] * (ability[student] - difficulty[question]))
    guessed = guessing[question]
    pm.Bernoulli("y", guessed + (1 - guessed) * solved, observed=correct)
