"""The emotions of BoxingGym: eight linear models, cut to ratings from 1 to 9."""

with pm.Model() as model:
    # normal priors by emotion, in the order of its numbers
    intercept = pm.Normal("intercept", [4.5, 3.5, 1.7, 3.3, 1.4, 1.8, 3.7, 2.0], 0.1, shape=8)
    by_win = pm.Normal("by_win", [0.04, -0.025, -0.005, 0.02, 0.0, -0.005, 0.03, -0.03], 0.01, shape=8)
    by_surprise = pm.Normal(
        "by_surprise", [0.035, -0.02, -0.025, 0.01, 0.0, -0.02, 0.02, -0.045], 0.01, shape=8
    )
    by_size = pm.Normal("by_size", [-0.015, 0.025, 0.025, 0.035, 0.005, 0.02, -0.01, 0.02], 0.01, shape=8)
    sigma = pm.HalfNormal("sigma", 1.0, shape=8)
    pm.Deterministic("win_slope", by_win)
    pm.Deterministic("surprise_slope", by_surprise)
    expected = prize_1 * probability_1 + prize_2 * probability_2 + prize_3 * probability_3
    error = win - expected
    mean = intercept[emotion] + by_win[emotion] * win + by_surprise[emotion] * error
    mean = mean + by_size[emotion] * np.abs(error)
    # a feeling from 3 to 4 is the rating 3: half a point less is what rounding gives
    feeling = pm.Normal.dist(mean - 0.5, sigma[emotion])
    pm.Censored("y", feeling, lower=1.0, upper=9.0, observed=rating)
