"""The item response model of BoxingGym: two parameters an item."""

with pm.Model() as model:
    ability = pm.Normal("ability", 0, 1, shape=6)
    difficulty = pm.Normal("difficulty", 0, 1, shape=6)
    discrimination = pm.Normal("discrimination", 0, 1, shape=6)
    pm.Deterministic("best_student", pt.argmax(ability))
    pm.Deterministic("difficult_question", pt.argmax(difficulty))
    pm.Deterministic("discriminating_question", pt.argmax(pt.abs(discrimination)))
    margin = discrimination[question] * (ability[student] - difficulty[question])
    pm.Bernoulli("y", logit_p=margin, observed=correct)
