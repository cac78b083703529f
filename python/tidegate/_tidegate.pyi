from collections.abc import Sequence

__version__: str

def main(arguments: Sequence[str], command: Sequence[str]) -> int: ...
