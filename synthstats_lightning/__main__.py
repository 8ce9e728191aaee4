"""`python -m synthstats_lightning`."""

from synthstats_lightning.cli.main import main

if __name__ == "__main__":
    main()
