"""Runs the tests that channels_redis has of its channel layer on publish and subscribe with
Tidegate's in its place. It is a plugin of pytest.

    pip download --no-deps --no-binary :all: channels-redis && tar xzf channels_redis-*.tar.gz
    cd channels_redis-4.3.0 && PYTHONPATH=.../python/tests python -m pytest \
        -p channel_layer_suite tests/test_pubsub.py
"""

import sys
from types import ModuleType

from listed import expect_failures
from tidegate.integrations.channels import ChannelLayer

#: Tests of what only the layer in Redis has.
OTHERWISE = {
    "a message is a dict": [
        "test_pubsub.py::test_receive_on_non_owned_general_channel",
    ],
    "private attributes, and the connection to Redis": [
        "test_pubsub.py::test_auto_reconnect",
        "test_pubsub.py::test_loop_instance_channel_layer_reference",
        "test_pubsub.py::test_multi_event_loop_garbage_collection",
        "test_pubsub.py::test_deserialize",
        "test_pubsub.py::test_serialize",
    ],
}


class Layer(ChannelLayer):
    """Ours, which has no hosts."""

    def __init__(self, hosts, **options):
        super().__init__(**options)


# In the place of the package, which needs Redis.
for name in ("channels_redis", "channels_redis.pubsub", "channels_redis.utils"):
    sys.modules[name] = ModuleType(name)
sys.modules["channels_redis.pubsub"].RedisPubSubChannelLayer = Layer
sys.modules["channels_redis.utils"]._close_redis = None


def pytest_collection_modifyitems(config, items):
    expect_failures(config, items, OTHERWISE)
