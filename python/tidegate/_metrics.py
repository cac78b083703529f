"""The application's own metrics: what it registers with ``prometheus_client``."""

import sys

from tidegate._log import logger

#: Families of the server, which has them for each process.
_OF_SERVER = ("process_", "tidegate_")
#: They are sent to the supervisor in one message.
_LENGTH_MAX = 8 * 1024 * 1024


class _Families:
    """The families of a registry that the server does not have itself."""

    def __init__(self, registry) -> None:
        self._registry = registry

    def collect(self):
        return (family for family in self._registry.collect()
                if not family.name.startswith(_OF_SERVER))


def text() -> str:
    """All families of the default registry in the Prometheus text format.

    Empty for an application that has not imported ``prometheus_client``.
    """
    client = sys.modules.get("prometheus_client")
    # A module that is still being imported has none.
    if (registry := getattr(client, "REGISTRY", None)) is None:
        return ""
    try:
        found = client.generate_latest(_Families(registry)).decode()
    except Exception:
        logger.exception("the application's own metrics cannot be read: /metrics lacks them")
        return ""
    if len(found) > _LENGTH_MAX:
        logger.error("the application's own metrics have %d characters, above the limit of %d: "
                     "/metrics lacks them; a label has too many values", len(found), _LENGTH_MAX)
        return ""
    return found
