"""The figures of a run and their bars: what the programs that judge bars print, and their command
line."""

import argparse
import os
import statistics
import subprocess
import sys

from processes import Failed, directory


class Figures:
    """The figures so far, and whether all met their bars."""

    def __init__(self):
        self.all_met = True

    def add(self, name, value, is_met, bar):
        """Prints a figure as it is to be read, with its bar."""
        self.all_met &= is_met
        print(f"{'ok    ' if is_met else 'MISSED'}  {name:56} {value:>16}  bar {bar}", flush=True)

    def number(self, name, value, bar=None, unit="", at_least=False):
        """Prints and judges a number; without a bar it is not judged."""
        told = f"{value:.3f}{unit}"
        if bar is None:
            self.note(f"{name:56} {told:>16}")
        else:
            is_met = value >= bar if at_least else value <= bar
            self.add(name, told, is_met, f"{'>=' if at_least else '<='} {bar:g}{unit}")

    def note(self, text):
        print(f"        {text}", flush=True)


def rounds(subjects, count, take):
    """What `take` returns of each subject: once to warm up, then there and back again, so that a
    drift of the machine affects all."""
    taken = [[] for _ in subjects]
    for turn in range(count + 1):
        order = range(len(subjects))
        for at in order if turn % 2 else reversed(order):
            value = take(subjects[at])
            if turn > 0:
                taken[at].append(value)
    return taken


def median_ratio(ones, others):
    """The median of the ratios, round by round."""
    return statistics.median(one / other for one, other in zip(ones, others))


def main(description, commands, context=None, arguments=None, after=None):
    """Runs the commands that the command line names, or all, and returns the exit status.

    A command gets what `context` makes of the options (the binary under test unless given) and the
    figures; `arguments` adds options, `after` follows each command.
    """
    name = os.path.basename(sys.argv[0])
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidegate", required=True, help="the binary under test")
    if arguments:
        arguments(parser)
    parser.add_argument("which", nargs="*", help=", ".join(commands))
    options = parser.parse_args()
    options.tidegate = os.path.abspath(options.tidegate)
    unknown = [which for which in options.which if which not in commands]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(commands)}")
    directory()
    figures = Figures()
    try:
        subject = context(options) if context else options.tidegate
        for which in options.which or commands:
            commands[which](subject, figures)
            if after:
                after()
    except (Failed, OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"{name}: FAILED, {error}")
        return 1
    print(f"{name}: {'passed' if figures.all_met else 'FAILED'}")
    return 0 if figures.all_met else 1
