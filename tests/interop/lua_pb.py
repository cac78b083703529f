"""Protocol Buffers as Python's protobuf has them, next to `pb` and `protoc` of Lua programs.

lua_pb.py write DIRECTORY   compiles the files there with protoc and writes messages of their types
lua_pb.py check DIRECTORY   compares with what the program has written

A message is a line: its type, its bytes, and its values as text, which both sides write alike.
"""

import pathlib
import random
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

ROOTS = {"new.proto": ["new.All"], "old.proto": ["old.Old", "old.Outer"]}
MESSAGES_PER_TYPE = 100
DEPTH = 2
INT32, UINT32 = [0, 1, -1, 127, 300, -(2**31), 2**31 - 1], [0, 1, 128, 2**32 - 1]
INT64, UINT64 = [*INT32, -(2**63), 2**63 - 1], [*UINT32, 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 1.0, -2.5, 0.1, 1e30, float("inf"), float("-inf")]
SCALARS = {
    "int32": INT32, "sint32": INT32, "sfixed32": INT32, "uint32": UINT32, "fixed32": UINT32,
    "int64": INT64, "sint64": INT64, "sfixed64": INT64, "uint64": UINT64, "fixed64": UINT64,
    "double": [*FLOATS, 1e300, 5e-324], "float": FLOATS, "bool": [False, True],
    "string": ["", "a", "zwölf €", "\0\n", "long" * 50],
    "bytes": [b"", b"\0\xff", bytes(range(256))],
}  # fmt: skip
FieldProto = descriptor_pb2.FieldDescriptorProto
NAMES = {number: name[5:].lower() for name, number in FieldProto.Type.items()}


def pool_of(files):
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def scalar(field, dice):
    if field.enum_type is not None:
        return dice.choice(field.enum_type.values).number
    return dice.choice(SCALARS[NAMES[field.type]])


def fill(message, pool, dice, depth):
    descriptor = message.DESCRIPTOR
    for field in [*descriptor.fields, *pool.FindAllExtensions(descriptor)]:
        is_message = field.message_type is not None
        if dice.random() < 0.6 or is_message and depth == 0:
            continue
        count = dice.randrange(3)
        if field.is_extension:
            message.Extensions[field] = scalar(field, dice)
        elif is_map(field):
            key, value = field.message_type.fields
            for _ in range(count):
                entries, name = getattr(message, field.name), scalar(key, dice)
                if value.message_type is not None:
                    fill(entries[name], pool, dice, depth - 1)
                else:
                    entries[name] = scalar(value, dice)
        elif field.is_repeated and is_message:
            for _ in range(count):
                fill(getattr(message, field.name).add(), pool, dice, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(scalar(field, dice) for _ in range(count))
        elif is_message:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), pool, dice, depth - 1)
        else:
            setattr(message, field.name, scalar(field, dice))


def value_text(field, value, pool):
    if field.message_type is not None:
        return message_text(value, pool)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(value, ".17g")
    if isinstance(value, (str, bytes)):
        return (value.encode() if isinstance(value, str) else value).hex()
    # Integers of Lua have a sign.
    return str(value - 2**64 if value >= 2**63 else value)


def field_text(message, field, pool):
    """The values of a field, or nothing if it is not set."""
    if field.is_extension:
        is_set = message.HasExtension(field)
        return value_text(field, message.Extensions[field], pool) if is_set else None
    content = getattr(message, field.name)
    if is_map(field):
        key, value = field.message_type.fields
        entries = [
            value_text(key, name, pool) + ":" + value_text(value, content[name], pool)
            for name in content
        ]
        return "[" + ",".join(sorted(entries)) + "]" if entries else None
    if field.is_repeated:
        entries = [value_text(field, value, pool) for value in content]
        return "[" + ",".join(entries) + "]" if entries else None
    if field.has_presence and not message.HasField(field.name):
        return None
    return value_text(field, content, pool)


def message_text(message, pool):
    descriptor = message.DESCRIPTOR
    fields = [*descriptor.fields, *pool.FindAllExtensions(descriptor)]
    texts = []
    for field in sorted(fields, key=lambda field: field.number):
        text = field_text(message, field, pool)
        if text is not None:
            texts.append(f"{field.name}={text};")
    return "{" + "".join(texts) + "}"


def reference(directory):
    return descriptor_pb2.FileDescriptorSet.FromString((directory / "reference.set").read_bytes())


def write(directory):
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{directory}", f"-I{well_known}", "--include_imports"]
    arguments.append(f"--descriptor_set_out={directory}/reference.set")
    if protoc.main([*arguments, *(f"{directory}/{name}" for name in ROOTS)]) != 0:
        sys.exit("protoc rejects the files")
    pool, dice, lines = pool_of(reference(directory)), random.Random(5), []
    for name in [name for names in ROOTS.values() for name in names]:
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for _ in range(MESSAGES_PER_TYPE):
            message = kind()
            fill(message, pool, dice, DEPTH)
            data = message.SerializePartialToString().hex()
            lines.append(f"{name} {data} {message_text(message, pool)}")
    (directory / "messages.txt").write_text("\n".join(lines) + "\n")


def normalized(file):
    """Without what `protoc` fills in and other compilers leave to the reader."""
    file = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    if file.syntax == "proto2":
        file.ClearField("syntax")

    def fields(messages):
        for message in messages:
            yield from message.field
            yield from message.extension
            yield from fields(message.nested_type)

    for field in [*fields(file.message_type), *file.extension]:
        if not field.json_name.startswith("own"):
            field.ClearField("json_name")
    return file


def check(directory):
    ours = descriptor_pb2.FileDescriptorSet.FromString((directory / "ours.set").read_bytes())
    expected = {file.name: normalized(file) for file in reference(directory).file}
    if {file.name for file in ours.file} != set(expected):
        sys.exit(f"only {[file.name for file in ours.file]}")
    for file in ours.file:
        # Our well-known files have no options of other languages.
        is_same = file.name.startswith("google/") or normalized(file) == expected[file.name]
        if not is_same:
            sys.exit(f"{file.name}:\n{normalized(file)}\nexpected:\n{expected[file.name]}")
    pool = pool_of(ours)
    before = (directory / "messages.txt").read_text().splitlines()
    after = (directory / "ours.txt").read_text().splitlines()
    if len(before) != len(after):
        sys.exit(f"{len(after)} messages of {len(before)}")
    for theirs, line in zip(before, after):
        name, data, text = theirs.split(" ", 2)
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        message = kind.FromString(bytes.fromhex(data))
        _, written, read = line.split(" ", 2)
        if read != text:
            sys.exit(f"{name} {data}: read as\n{read}\nexpected\n{text}")
        if kind.FromString(bytes.fromhex(written)) != message:
            sys.exit(f"{name} {data}: written as {written}")
    print(len(after), "messages")


{"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
