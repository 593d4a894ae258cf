"""A body of any type gives the rows that `nescio score` reads from a file; all else is refused."""

import io
import json
from dataclasses import replace
from functools import cache

import numpy as np
import orjson
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torch import nn

import nescio
from nescio import nets
from nescio.core import Bundle, NescioError
from nescio.guards.score import score
from nescio.guards.steady import Steady
from nescio.serving.bodies import (
    BodyError,
    BodyLimits,
    check_encoding,
    joined_rows,
    read_body,
    rows_of_kept,
)
from nescio.serving.decision_bytes import json_rows
from nescio.serving.input_form import form_of

JSON, NPY = "application/json", "application/x-npy"
STREAM, FILE = "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"
LIMITS = BodyLimits()
WORDS = ["red", "green", "blue"]


def draws(count, *shape):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))


def made(net, draw, **options):
    pairs = [(x, net(x).argmax(1)) for x in (draw(300), draw(200))]
    return nescio.guard(
        net, pairs[0], train=pairs[1], risk=0.5, progress=False, calibration_map=None, **options
    )


@cache
@torch.no_grad()
def guard(name):
    torch.manual_seed(0)
    if name == "numbers":
        net = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3)).eval()
        return made(net, lambda count: draws(count, 5), detector="mahalanobis")
    if name in ("gray", "color"):
        colors = 1 if name == "gray" else 3
        net = nn.Sequential(nn.Flatten(), nn.Linear(colors * 48, 3))
        net[1].bias.copy_(-net[1].weight.sum(1) / 2)
        return made(net.eval(), lambda n: draws(n, colors, 6, 8).sigmoid(), detector="mahalanobis")
    if name == "tokens":
        net = nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 3)).eval()

        def ids(count):
            return torch.randint(0, 20, (count, 6), generator=torch.Generator().manual_seed(count))

        return made(net, ids, detector="energy")
    if name == "table":
        columns = nescio.data.learn_columns(rows(200), KINDS)
        net = nets.encoded(nets.mlp(columns.width, 3, widths=(8,)), columns).eval()
        return made(net, lambda count: columns.numbers(rows(count)), detector="gower")
    if name == "named":  # as the command line makes it of a table of numbers
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
        found = made(net, lambda count: draws(count, 2), detector="energy")
        return replace(found, notes={**found.notes, "columns": ["a", "b"]})
    if name == "bundle":
        return _of_bundle()
    z = 3 * draws(300, 3)
    data = [nescio.recorded(z, features=draws(300, 4), labels=z.argmax(1))] * 2
    options = {"risk": 0.5, "repeats": True, "progress": False, "calibration_map": None}
    return nescio.guard(None, data[0], train=data[1], **options)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(9, 5), nn.Linear(8, 2)

    def forward(self, ids, row):
        return self.last(torch.cat([self.embedding(ids).mean(1), row], 1))


def parts(count):
    ids = torch.randint(0, 9, (count, 4), generator=torch.Generator().manual_seed(count))
    return {"ids": ids, "row": draws(count, 3)}


def _of_bundle():
    net = Both().eval()
    pairs = [(x, net(**x).argmax(1)) for x in (parts(300), parts(200))]
    options = {"risk": 0.5, "progress": False, "detector": "energy", "calibration_map": None}
    return nescio.guard(net, pairs[0], train=pairs[1], **options)


KINDS = {"size": "continuous", "age": "continuous", "color": "categorical"}


def rows(count):
    draw = np.random.default_rng(count)
    numbers = {name: draw.normal(size=count).round(3) for name in ("size", "age")}
    return {**numbers, "color": draw.choice(WORDS, count)}


def records(count):
    columns = rows(count)
    return [dict(zip(columns, (float(a), float(b), str(c)), strict=True))
            for a, b, c in zip(*columns.values(), strict=True)]  # fmt: skip


def npy(array):
    room = io.BytesIO()
    np.save(room, array)
    return room.getvalue()


def arrow(table, *, file=False, **options):
    sink = pa.BufferOutputStream()
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with new(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def lists(array):
    flat = pa.array(np.asarray(array).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(array.shape[1:])))


def image(seed, *, kind="PNG", size=(8, 6), mode="L"):
    draw = np.random.default_rng(seed)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
    room = io.BytesIO()
    Image.fromarray(draw.integers(0, 256, shape, dtype=np.uint8)).save(room, kind)
    return room.getvalue()


def multipart(files, boundary="x-y"):
    heads = [f'Content-Disposition: form-data; name="f"; filename="{i}"\r\nContent-Type: image/png'
             for i in range(len(files))]  # fmt: skip
    body = b"".join(
        f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n"
        for head, content in zip(heads, files, strict=True)
    )
    return f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode()


def scored(made, source, tmp_path):
    """The lines of `nescio score` without the number of the sample, and the file of an image."""
    out = tmp_path / "d.jsonl"
    score(made, source, out, resume=False)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("sample", "file")} for row in found]


steady = cache(Steady)


def answered(made, *bodies):
    """The answers to requests that are decided together."""
    read = [read_body(kind, body, made, LIMITS) for kind, body in bodies]
    return [json.loads(line) for line in json_rows(steady(made)(joined_rows(read)))]


def test_numbers_of_all_types_are_decided_as_by_score(tmp_path):
    made, x = guard("numbers"), draws(21, 5).numpy()
    x[3, 2], x[4, 1] = np.nan, np.inf
    wanted = scored(made, x, tmp_path)
    finite = np.where(np.isnan(x), None, x.astype(object)).tolist()
    finite[4][1] = 1e300
    for body in ({"inputs": finite}, {"rows": finite}, finite):
        assert answered(made, (JSON, orjson.dumps(body))) == wanted
    assert (
        answered(
            made,
            (NPY, npy(x)),
        )
        == wanted
    )
    assert answered(made, ("application/octet-stream", npy(x[:9])), (NPY, npy(x[9:]))) == wanted
    assert answered(made, (NPY, npy(np.asfortranarray(x)))) == wanted
    assert answered(made, (NPY, npy(x.astype(">f4")))) == wanted
    columns = pa.table({f"c{i}": x[:, i] for i in range(5)})
    for table in (pa.table({"x": lists(x)}), columns):
        assert (
            answered(
                made,
                (STREAM, arrow(table)),
            )
            == wanted
        )
        assert answered(made, (FILE, arrow(table, file=True))) == wanted


def test_tokens_stay_whole_numbers(tmp_path):
    made = guard("tokens")
    ids = torch.randint(0, 20, (9, 6)).numpy()
    wanted = scored(made, ids, tmp_path)
    assert answered(made, (JSON, orjson.dumps(ids.tolist()))) == wanted
    assert answered(made, (NPY, npy(ids.astype(np.int16)))) == wanted
    assert answered(made, (STREAM, arrow(pa.table({"ids": lists(ids)})))) == wanted


def test_rows_of_a_table_come_by_name(tmp_path):
    made, given = guard("table"), records(12)
    given[2]["size"], given[3]["color"], given[4]["color"] = None, None, "violet"
    text = "size,age,color\n" + "".join(
        ",".join("" if v is None else str(v) for v in row.values()) + "\n" for row in given
    )
    (tmp_path / "t.csv").write_text(text)
    wanted = scored(made, tmp_path / "t.csv", tmp_path)
    columns = {name: [row[name] for row in given] for name in KINDS}
    for body in ({"rows": given}, given, {"inputs": columns}, columns):
        assert answered(made, (JSON, orjson.dumps(body))) == wanted
    assert answered(made, (JSON, orjson.dumps(given[0]))) == wanted[:1]
    shuffled = [{"color": row["color"], "age": row["age"], "size": row["size"]} for row in given]
    assert answered(made, (JSON, orjson.dumps(shuffled))) == wanted
    table = pa.table(columns)
    coded = table.set_column(2, "color", table.column("color").dictionary_encode())
    for one in (table, coded):
        assert answered(made, (STREAM, arrow(one))) == wanted


def test_columns_of_numbers_come_by_name_or_in_order():
    made = guard("named")
    assert form_of(made).names == ("a", "b")
    by_name = answered(made, (JSON, b'[{"b": 2.5, "a": 0.5}]'))
    assert by_name == answered(made, (JSON, b"[[0.5, 2.5]]"))
    missing = answered(made, (JSON, b'[{"b": null, "a": 0.5}]'))
    assert missing == answered(made, (JSON, b"[[0.5, null]]"))
    assert missing[0]["rule"] == "not finite"


def test_several_tensors_come_by_name(tmp_path):
    made, given = guard("bundle"), parts(7)
    wanted = scored(made, given, tmp_path)
    plain = {name: part.tolist() for name, part in given.items()}
    objects = [{name: plain[name][i] for name in plain} for i in range(7)]
    for body in (plain, {"inputs": plain}, objects, {"rows": objects}):
        assert answered(made, (JSON, orjson.dumps(body))) == wanted
    table = pa.table({name: lists(part.numpy()) for name, part in given.items()})
    assert answered(made, (STREAM, arrow(table))) == wanted


def test_a_network_elsewhere_sends_what_it_gave(tmp_path):
    made = guard("recorded")
    z, f = draws(8, 3), draws(9, 4)[:8]
    wanted = scored(made, nescio.recorded(z, features=f), tmp_path)
    body = {"logits": z.tolist(), "features": f.tolist()}
    assert answered(made, (JSON, orjson.dumps(body))) == wanted
    assert answered(made, (NPY, npy(torch.cat([z, f], 1).numpy()))) == wanted
    sure = {"probabilities": z.softmax(1).tolist(), "features": f.tolist()}
    assert [row["label"] for row in answered(made, (JSON, orjson.dumps(sure)))] == [
        row["label"] for row in wanted
    ]
    with pytest.raises(BodyError, match="4 classes and 7 numbers"):
        read_body(JSON, orjson.dumps({"logits": f.tolist(), "features": z.tolist()}), made, LIMITS)


@pytest.mark.parametrize("name", ["gray", "color"])
def test_images_are_read_as_from_a_folder(name, tmp_path):
    made, mode = guard(name), {"gray": "L", "color": "RGB"}[name]
    sizes = [(8, 6), (20, 17), (5, 31)]
    options = [("PNG", mode), ("JPEG", "RGB"), ("BMP", "L"), ("WEBP", "RGB"), ("GIF", "L")]
    files = [image(i, kind=kind, size=sizes[i % 3], mode=m) for i, (kind, m) in enumerate(options)]
    folder = tmp_path / "files"
    folder.mkdir()
    for place, content in enumerate(files):
        (folder / f"{place}.png").write_bytes(content)
    stream = nescio.data.readers.open_stream(folder, size=(6, 8), mode=name)
    wanted = scored(made, stream, tmp_path)
    bodies = [("image/png", content) for content in files]
    assert answered(made, *bodies) == wanted
    assert answered(made, multipart(files)) == wanted
    pixels = torch.cat([x for _, x in stream.blocks(9)]).numpy()
    assert answered(made, (NPY, npy(pixels))) == wanted


def test_digests_are_of_the_numbers_that_the_guard_reads():
    made, x = guard("numbers"), draws(4, 5).numpy()
    one = read_body(NPY, npy(x), made, LIMITS)
    for kind, body in (
        (NPY, npy(x.astype(np.float64))),
        (JSON, orjson.dumps(x.astype(np.float64).tolist())),
        (STREAM, arrow(pa.table({"x": lists(x)}))),
    ):
        assert read_body(kind, body, made, LIMITS).digests == one.digests
    assert len(set(one.digests)) == 4
    assert all(len(digest) == 32 for digest in one.digests)
    bundle = guard("bundle")
    given = {name: part.tolist() for name, part in parts(3).items()}
    first = read_body(JSON, orjson.dumps(given), bundle, LIMITS)
    again = read_body(JSON, orjson.dumps(dict(reversed(given.items()))), bundle, LIMITS)
    assert first.digests == again.digests


def test_what_is_kept_is_read_again_to_the_last_bit():
    files = [image(1), image(2, kind="BMP", size=(9, 9))]
    cases = [
        ("numbers", NPY, npy(np.array([[0.1, np.nan, 3, 4, 5], [1, 2, 3, 4, np.inf]]))),
        ("tokens", JSON, b"[[1,2,3,4,5,6]]"),
        ("table", JSON, orjson.dumps(records(3))),
        ("table", STREAM, arrow(pa.table(rows(3)))),
        ("named", JSON, b'[{"b": 2.5, "a": null}]'),
        ("bundle", JSON, orjson.dumps({name: part.tolist() for name, part in parts(3).items()})),
        ("gray", *multipart(files)),
        ("recorded", NPY, npy(draws(2, 7).numpy())),
    ]
    for name, kind, body in cases:
        made = guard(name)
        found = read_body(kind, body, made, LIMITS)
        again = rows_of_kept([found.kept(row) for row in range(len(found))], made)
        pair = [
            one.parts if isinstance(one, Bundle) else {"": one} for one in (found.inputs, again)
        ]
        for part in pair[0]:
            first, second = (one[part].numpy() for one in pair)
            assert first.dtype == second.dtype
            assert first.tobytes() == second.tobytes()
    assert read_body(*multipart(files), guard("gray"), LIMITS).kept(1).body == files[1]
    kept = read_body(JSON, orjson.dumps(records(3)), guard("table"), LIMITS).kept(2)
    assert (kept.kind, json.loads(kept.body)) == ("row", records(3)[2])
    with pytest.raises(NescioError, match="no inputs"):
        rows_of_kept([], guard("numbers"))


ROW = b"[[1,2,3,4,5]]"
BOMB = io.BytesIO()
Image.new("L", (4000, 4000)).save(BOMB, "PNG")
BOMB = BOMB.getvalue()
WRONG = [
    ("numbers", "", ROW, 415, "types are"),
    ("numbers", "text/plain", ROW, 415, "text/plain"),
    ("numbers", "application/octet-stream", b"abc", 415, "octet"),
    ("numbers", "application/zip", b"PK", 415, "zip"),
    ("numbers", "image/png", image(0), 415, "reads no images"),
    ("numbers", JSON, b"", 400, "as JSON"),
    ("numbers", JSON, b"[[1,2,3,4,NaN]]", 400, "as JSON"),
    ("numbers", JSON, b"[[1,2,3,4,1e999]]", 400, "as JSON"),
    ("numbers", JSON, b"[" * 100_000, 400, "as JSON"),
    ("numbers", JSON, b"[" * 1000 + b"]" * 1000, 422, "shape|lists"),
    ("numbers", JSON, b"3", 422, "a list of rows"),
    ("numbers", JSON, b"[]", 422, "no rows"),
    ("numbers", JSON, b"{}", 422, "no keys"),
    ("numbers", JSON, b'{"rows": [[1]], "more": 1}', 422, "'more'"),
    ("numbers", JSON, b"[1,2,3,4,5]", 422, r"\[\[...\]\]"),
    ("numbers", JSON, b"[[1,2,3]]", 422, r"\(N, 5\)"),
    ("numbers", JSON, b"[[1,2,3,4,5],[1,2]]", 422, "one length"),
    ("numbers", JSON, b"[[true,2,3,4,5]]", 422, "truth"),
    ("numbers", JSON, b"[[true,true,true,true,true]]", 422, "truth"),
    ("numbers", JSON, b'[["1",2,3,4,5]]', 422, "real numbers"),
    ("numbers", JSON, b'[["1",2,3,4,null]]', 422, "text"),
    ("numbers", JSON, b'[{"a":1}]', 422, "objects"),
    ("numbers", JSON, b"[[1,2,3,4,5]," * 9, 400, "as JSON"),
    ("numbers", JSON, b"[" + b"[1,2,3,4,5]," * 4096 + b"[1,2,3,4,5]]", 413, "4,097"),
    ("numbers", JSON, b"[" + b"0," * (1 << 21) + b"0]", 413, "x-npy"),
    ("numbers", JSON, b" " * (17 << 20), 413, "bytes"),
    ("numbers", NPY, b"", 400, "as .npy"),
    ("numbers", NPY, npy(np.zeros((2, 5)))[:-1], 400, "cut off"),
    ("numbers", NPY, npy(np.zeros((2, 5))) + b"0", 400, "cut off"),
    ("numbers", NPY, npy(np.zeros((4097, 5))), 413, "4,097"),
    ("numbers", NPY, npy(np.zeros((0, 5))), 422, "no rows"),
    ("numbers", NPY, npy(np.float64(3)), 422, "shape"),
    ("numbers", NPY, npy(np.zeros((2, 5), bool)), 422, "truth"),
    ("numbers", NPY, npy(np.zeros((2, 5), complex)), 422, "real"),
    ("numbers", NPY, npy(np.zeros((2, 5), "U3")), 422, "real"),
    ("numbers", NPY, npy(np.zeros((2, 5), np.uint8)), 422, "uint8"),
    ("numbers", NPY, npy(np.zeros(2, [("a", float)])), 422, "real"),
    ("gray", NPY, npy(np.zeros((2, 6, 8, 1))), 422, "channels-last"),
    ("tokens", JSON, b"[[1,2,3,4,5,6.5]]", 422, "whole"),
    ("tokens", JSON, b"[[1,2,3,4,5,18446744073709551615]]", 422, "whole"),
    ("tokens", JSON, b"[[1,2,3,4,5,1e20]]", 422, "whole"),
    ("tokens", NPY, npy(np.full((1, 6), 2**64 - 1, np.uint64)), 422, "64 bits"),
    ("table", JSON, b'[{"size":1,"age":2}]', 422, "color"),
    ("table", JSON, b'[{"size":1,"age":2,"colour":"red"}]', 422, "did you mean"),
    ("table", JSON, b'[{"size":"big","age":2,"color":"red"}]', 422, "'big'"),
    ("table", JSON, b'[{"size":[1],"age":2,"color":"red"}]', 422, "size"),
    ("table", JSON, b'[{"size":1e300,"age":2,"color":"red"}]', 422, "float32"),
    ("table", JSON, b'[{"size":1,"age":2,"color":{}}]', 422, "color"),
    ("table", JSON, b'[[1,2,"red"]]', 422, "real numbers"),
    ("table", JSON, b"[[1,0,2,0,1,1,0,0,0]]", 422, "categorical"),
    ("table", JSON, b'{"size":[1],"age":[2,3],"color":["red"]}', 422, "different"),
    ("bundle", JSON, b'{"ids":[[1,2,3,4]]}', 422, "row"),
    ("bundle", JSON, b'{"ids":[[1,2,3,4]],"row":[[1,2,3],[1,2,3]]}', 422, "one row per"),
    ("bundle", JSON, b'{"ids":[[1,2,3,4.5]],"row":[[1,2,3]]}', 422, "whole"),
    ("bundle", NPY, npy(np.zeros((2, 5))), 422, "several"),
    ("recorded", JSON, b'{"features":[[1,2,3,4]]}', 422, "logits"),
    ("gray", "image/png", b"", 422, "cannot read"),
    ("gray", "image/png", image(0)[:60], 422, "cannot read"),
    ("gray", "image/png", BOMB + b"0", 200, ""),
    ("gray", *multipart([BOMB, BOMB]), 413, "pixels"),
    ("gray", "image/svg+xml", b"<svg/>", 422, "cannot read"),
    ("gray", "multipart/form-data", b"", 400, "boundary"),
    ("gray", multipart([image(0)])[0], multipart([image(0)])[1][:-8], 400, "end"),
    ("gray", multipart([])[0], b"--x-y\r\nabc\r\n--x-y--", 400, "header"),
    ("gray", multipart([])[0], b"--x-y\r\nContent-Type: text/csv\r\n\r\n1\r\n--x-y--", 415, "csv"),
    ("gray", *multipart([]), 422, "no rows"),
    ("numbers", STREAM, b"", 400, "Arrow"),
    ("numbers", STREAM, arrow(pa.table({"x": lists(np.zeros((3, 5)))}))[:-20], 400, "Arrow"),
    ("numbers", STREAM, arrow(pa.table({"x": lists(np.zeros((3, 4)))})), 422, "shape"),
    ("numbers", STREAM, arrow(pa.table({"x": ["a"]})), 422, "numbers"),
    ("numbers", STREAM, arrow(pa.table({"x": [[1.0] * 5]})), 422, "fixed size"),
    ("numbers", STREAM, arrow(pa.table({"x": pa.nulls(10**9)})), 413, "rows"),
    ("table", STREAM, arrow(pa.table({"size": [1.0]})), 422, "age"),
]


@pytest.mark.parametrize(("name", "kind", "body", "status", "said"), WRONG)
def test_what_cannot_be_read_says_why(name, kind, body, status, said):
    if status == 200:
        assert len(read_body(kind, body, guard(name), LIMITS)) == 1
        return
    with pytest.raises(BodyError, match=said) as caught:
        read_body(kind, body, guard(name), LIMITS)
    assert caught.value.status == status


@pytest.mark.parametrize("how", ["lz4", "zstd"])
def test_compressed_bodies_are_refused(how):
    """A buffer says how large it becomes; nobody must believe it."""
    options = pa.ipc.IpcWriteOptions(compression=how)
    table = pa.table({"x": lists(np.zeros((300, 5)))})
    coded = pa.table({"x": pa.array(["abc" * 999] * 300).dictionary_encode()})
    for one in (table, coded):
        for file in (False, True):
            body = arrow(one, options=options, file=file)
            with pytest.raises(BodyError, match="compressed") as caught:
                read_body(FILE if file else STREAM, body, guard("numbers"), LIMITS)
            assert caught.value.status == 415
    with pytest.raises(BodyError, match="gzip"):
        check_encoding("gzip")
    check_encoding(None)
    check_encoding("identity")


def test_a_broken_image_is_named_by_its_place():
    for kind, body in (("image/png", b"no image"), multipart([image(0), b"no image"])):
        with pytest.raises(
            BodyError, match=r"cannot read the image number \d: it is not"
        ) as caught:
            read_body(kind, body, guard("gray"), LIMITS)
        assert "object at" not in str(caught.value)


def test_a_large_image_is_not_decoded(monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("decoded"))
    with pytest.raises(BodyError, match="pixels") as caught:
        read_body("image/png", BOMB, guard("gray"), BodyLimits(pixels=10**6))
    assert caught.value.status == 413


def test_guards_that_no_request_can_ask_are_refused():
    made = guard("numbers")
    groups = torch.arange(300) % 2
    x = draws(300, 5)
    with torch.no_grad():
        pair = (x, made.nets[0](x).argmax(1))
    by_group = nescio.guard(
        made.nets[0], pair, by=groups, risk=0.9, detector="energy", calibration_map=None
    )
    with pytest.raises(NescioError, match="groups"):
        form_of(by_group)
    with pytest.raises(NescioError, match="not a Both"):
        form_of(Both())
