"""Run the command line: ``python -m rewardmix``."""

from rewardmix.cli import main

if __name__ == "__main__":
    main()
