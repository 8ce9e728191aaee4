"""What a policy must know of an instance to choose designs stands in its prompt."""

from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask


def test_an_episode_lists_the_patients_it_may_ask_for():
    for domain_knowledge in (True, False):
        task = ExperimentTask("survival", seed=0, domain_knowledge=domain_knowledge)
        assert task.simulator.design_notes in task.written_prompt[1]
    assert "patient" not in task.written_prompt[1]
