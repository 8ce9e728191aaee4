"""How the bundled tiny policy was made, from a grammar of programs to its weights.

`python -m synthstats_lightning.pretraining --config configs/policy/tiny_pretraining.yaml --output DIR`
reproduces the weights in `synthstats_lightning/policy/tiny`. Nothing here reads the data of any task.
"""
