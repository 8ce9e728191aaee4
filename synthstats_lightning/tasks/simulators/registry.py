"""Simulators by name."""

from __future__ import annotations

from synthstats_lightning.tasks.simulators.base import Simulator
from synthstats_lightning.tasks.simulators.death_process import DeathProcessSimulator
from synthstats_lightning.tasks.simulators.dugongs import DugongsSimulator
from synthstats_lightning.tasks.simulators.eight_schools import EightSchoolsSimulator
from synthstats_lightning.tasks.simulators.emotion import EmotionSimulator
from synthstats_lightning.tasks.simulators.hyperbolic_discounting import HyperbolicDiscountingSimulator
from synthstats_lightning.tasks.simulators.item_response import ItemResponseSimulator
from synthstats_lightning.tasks.simulators.location_finding import LocationFindingSimulator
from synthstats_lightning.tasks.simulators.lotka_volterra import LotkaVolterraSimulator
from synthstats_lightning.tasks.simulators.moral_machines import MoralMachinesSimulator
from synthstats_lightning.tasks.simulators.peregrines import PeregrinesSimulator
from synthstats_lightning.tasks.simulators.surgical import SurgicalSimulator
from synthstats_lightning.tasks.simulators.survival import SurvivalSimulator

SIMULATORS: dict[str, type[Simulator]] = {
    simulator.name: simulator
    for simulator in (
        DugongsSimulator,
        PeregrinesSimulator,
        DeathProcessSimulator,
        ItemResponseSimulator,
        LocationFindingSimulator,
        HyperbolicDiscountingSimulator,
        SurvivalSimulator,
        LotkaVolterraSimulator,
        MoralMachinesSimulator,
        EmotionSimulator,
        EightSchoolsSimulator,
        SurgicalSimulator,
    )
}
"""Environments that come with the package."""
