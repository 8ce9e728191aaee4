"""Writes the simulated data sets of the real programs: `python make.py`, always the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def write(name: str, **columns: np.ndarray) -> None:
    """One CSV: whole numbers as they are, others with three decimals."""
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns)]
    lines += [",".join(f"{x:d}" if isinstance(x, np.integer) else f"{x:.3f}" for x in row) for row in rows]
    (HERE / f"{name}.csv").write_text("\n".join(lines) + "\n")


def main() -> None:
    """All of them, from one seed."""
    rng = np.random.default_rng(20261121)
    county = np.repeat(np.arange(12), rng.integers(3, 9, 12))
    floor = rng.binomial(1, 0.2, len(county))
    uranium = np.round(rng.normal(0, 0.4, 12), 3)[county]
    level = (1.4 + 0.7 * uranium) + rng.normal(0, 0.25, 12)[county]
    write(
        "radon",
        county=county,
        floor=floor,
        uranium=uranium,
        log_radon=level - 0.7 * floor + rng.normal(0, 0.7, len(county)),
    )
    day = np.arange(1, 31) * 3.0
    write("growth", day=day, weight=60 / (1 + np.exp(-(day - 40) / 11)) * np.exp(rng.normal(0, 0.06, 30)))
    substrate = np.tile([0.02, 0.06, 0.11, 0.22, 0.56, 1.1], 4)
    treated = np.repeat([1, 0], 12)
    rate = np.where(treated == 1, 210, 160) * substrate / (0.055 + substrate) + rng.normal(0, 7, 24)
    write("enzyme", substrate=substrate, treated=treated, rate=rate)
    dose = np.array([1.69, 1.72, 1.75, 1.78, 1.81, 1.84, 1.86, 1.88])
    beetles = np.array([59, 60, 62, 56, 63, 59, 62, 60])
    died = rng.binomial(beetles, 1 / (1 + np.exp(-34 * (dose - 1.775))))
    write("beetles", dose=dose, beetles=beetles, died=died)
    year = np.arange(1880, 1940)
    write("disasters", year=year, count=rng.poisson(np.where(year < 1906, 3.2, 1.0)))
    persons, camper = rng.integers(1, 5, 90), rng.integers(0, 2, 90)
    caught = rng.poisson(np.exp(-0.9 + 0.6 * persons + 0.5 * camper)) * rng.binomial(1, 0.65, 90)
    write("fishing", persons=persons, camper=camper, caught=caught)
    series = np.zeros(70)
    for t in range(1, 70):
        series[t] = 0.7 * series[t - 1] + rng.normal(0, 0.6)
    month = np.arange(70)
    write("series", month=month, value=4 + series + 0.9 * np.sin(2 * np.pi * month / 12))
    waiting = np.where(rng.random(80) < 0.36, rng.normal(54, 6, 80), rng.normal(80, 5.5, 80))
    write("geyser", eruption=np.arange(80), waiting=np.round(waiting))
    x = np.round(np.sort(rng.uniform(0, 10, 30)), 2)
    noise = np.where(rng.random(30) < 0.15, rng.normal(0, 6, 30), rng.normal(0, 0.5, 30))
    write("outliers", x=x, y=1 + 0.8 * x + noise)
    hours, grade = np.round(rng.gamma(4, 2, 60), 1), np.round(rng.normal(3, 0.5, 60), 2)
    write(
        "exam", hours=hours, grade=grade, passed=rng.binomial(1, 1 / (1 + np.exp(-(0.5 * hours + grade - 7))))
    )
    quality = np.round(rng.normal(0, 1, 80), 2)
    latent = 1.3 * quality + rng.logistic(0, 1, 80)
    write("ratings", quality=quality, rating=np.digitize(latent, [-2.0, -0.5, 0.8, 2.2]))
    age, region = rng.integers(18, 75, 60), rng.integers(0, 4, 60)
    mean = np.exp(5.5 + 0.012 * age + np.array([0.0, 0.3, -0.2, 0.5])[region])
    write("claims", age=age, region=region, cost=rng.gamma(3.0, mean / 3.0))
    features = {f"f{k}": np.round(rng.normal(0, 1, 100), 2) for k in range(1, 19)}
    price = 10 + sum(
        (2.0 if k in (1, 4) else 0.3 if k == 9 else 0.0) * features[f"f{k}"] for k in range(1, 19)
    )
    write("housing", **features, price=price + rng.normal(0, 1.5, 100))
    site = np.repeat(np.arange(10), 4)
    write("birds", site=site, seen=rng.binomial(rng.poisson(7.0, 10)[site], 0.5))


if __name__ == "__main__":
    main()
