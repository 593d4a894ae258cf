"""Networks, data and OOD sets on which the default detector is designed, and others that judge it.

The two parts share no architecture and no OOD set. The split was written down before any score was
computed, and nothing was tuned on the part that is held back.
"""

import csv
import hashlib
import lzma
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nescio
from nescio.data.sets.catalogue import root

Pair = tuple[Tensor, Tensor]
Sets = Mapping[str, Tensor]
CALIBRATION, TEST, OUT = 2000, 2000, 1000  # samples of each, where there are as many


@dataclass(frozen=True, eq=False)
class Material:
    """What a network is trained, calibrated and judged on."""

    train: Pair
    calibration: Pair
    test: Tensor
    ood: Sets


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A network and its data."""

    name: str
    held_back: bool
    make: Callable[[], nn.Module]
    material: Callable[[], Material]
    epochs: int
    rate: float = 2e-3
    table: bool = False


class Residual(nn.Module):
    """x + f(x), with a projection where the shape changes."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.body(x)  # type: ignore[no-any-return]


class Mean(nn.Module):
    """The mean over all positions of maps or sequences `(N, C, ...)`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).mean(2)


class Last(nn.Module):
    """The state of a recurrent layer after the last step, of sequences `(N, C, T)`."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x.mT)[1][-1]  # type: ignore[no-any-return]


def lenet() -> nn.Module:
    """Two convolutions, ReLU, maximum pooling, two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def plain(channels: int, width: int) -> nn.Module:
    """Convolutions with batch normalization and ReLU, then the mean over all positions."""

    def block(a: int, b: int, stride: int) -> list[nn.Module]:
        convolution = nn.Conv2d(a, b, 3, stride=stride, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(b), nn.ReLU()]

    layers = [*block(channels, width, 1), *block(width, 2 * width, 2)]
    layers += [*block(2 * width, 2 * width, 1), *block(2 * width, 4 * width, 2)]
    return nn.Sequential(*layers, Mean(), nn.Linear(4 * width, 10))


def resnet(channels: int, width: int) -> nn.Module:
    """Residual blocks with batch normalization and ReLU in three stages."""

    def block(a: int, b: int, stride: int) -> nn.Module:
        body = nn.Sequential(
            nn.Conv2d(a, b, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
            nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b),
        )  # fmt: skip
        shortcut = nn.Conv2d(a, b, 1, stride=stride, bias=False) if a != b else None
        return nn.Sequential(Residual(body, shortcut), nn.ReLU())

    stem = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    stages = [block(width, width, 1), block(width, 2 * width, 2), block(2 * width, 4 * width, 2)]
    return nn.Sequential(*stem, *stages, Mean(), nn.Linear(4 * width, 10))


def mixer(channels: int, width: int, patch: int) -> nn.Module:
    """Depthwise and pointwise convolutions on patches, with GELU and residuals (ConvMixer)."""

    def block() -> list[nn.Module]:
        depth = nn.Conv2d(width, width, 5, groups=width, padding=2)
        around = Residual(nn.Sequential(depth, nn.GELU(), nn.BatchNorm2d(width)))
        return [around, nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]

    stem = [nn.Conv2d(channels, width, patch, stride=patch), nn.GELU(), nn.BatchNorm2d(width)]
    return nn.Sequential(*stem, *block(), *block(), *block(), Mean(), nn.Linear(width, 10))


def relu_mlp(inputs: int, classes: int) -> nn.Module:
    """Two hidden layers with ReLU."""
    hidden = [nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(64, classes))


def gelu_mlp(inputs: int, classes: int, width: int = 96) -> nn.Module:
    """A hidden layer and a residual block, with layer normalization and GELU."""
    inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
    first = [nn.Flatten(), nn.Linear(inputs, width), nn.GELU(), Residual(inner)]
    return nn.Sequential(*first, nn.Linear(width, classes))


def convolved_sequence(inputs: int, classes: int) -> nn.Module:
    """Two convolutions in time with ReLU, then their mean."""
    first = [nn.Conv1d(inputs, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2)]
    return nn.Sequential(*first, nn.ReLU(), Mean(), nn.Linear(32, classes))


def recurrent(inputs: int, classes: int) -> nn.Module:
    """A gated recurrent layer."""
    return nn.Sequential(Last(inputs, 48), nn.Linear(48, classes))


def _folder() -> Path:
    found = root()
    assert found is not None, "set NESCIO_DATA to the folder of the data sets"
    return Path(found)


@lru_cache
def _images(name: str) -> Pair:
    """Test images in 0 .. 1 and labels of a set."""
    test = nescio.data.load(name).test
    assert test is not None
    return nescio.core.as_batch(test[0], torch.float32), test[1]


def _photographs(name: str) -> Tensor:
    """Images `(N, 3, 32, 32)` in 0 .. 1 from a folder of stored arrays."""
    (path,) = sorted((_folder() / name).glob("*_x.npy.xz"))[-1:]
    with lzma.open(path) as file:
        array = np.load(file)
    return torch.from_numpy(array).permute(0, 3, 1, 2).float() / 255


def _gray(x: Tensor) -> Tensor:
    return F.interpolate(x.mean(1, keepdim=True), size=28, mode="bilinear", antialias=True)


def _rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _split(name: str, samples: int, ood: Callable[[Tensor], Sets]) -> Material:
    data = nescio.data.load(name, validation=0)
    x, y = nescio.core.as_batch(data.train[0], torch.float32), data.train[1]
    chosen = torch.randperm(len(x), generator=_rng())[:samples]
    test_x, test_y = _images(name)
    mixed = torch.randperm(len(test_x), generator=_rng(1))
    held, judged = mixed[:CALIBRATION], mixed[CALIBRATION : CALIBRATION + TEST]
    sets = ood(test_x[mixed[-OUT:]])
    return Material(
        (x[chosen], y[chosen]),
        (test_x[held], test_y[held]),
        test_x[judged],
        {key: rows[:OUT].contiguous() for key, rows in sets.items()},
    )


def _first(name: str) -> Tensor:
    return _images(name)[0][torch.randperm(len(_images(name)[0]), generator=_rng(2))[:OUT]]


def _letters() -> Tensor:
    x, y = _images("letters")
    plain_letters = ~torch.isin(y, torch.tensor([8, 14, 18, 25]))  # I, O, S, Z look like digits
    x = x[plain_letters]
    return x[torch.randperm(len(x), generator=_rng(2))[:OUT]]


def _moved(x: Tensor) -> Tensor:
    """Images moved by 7 pixels along both axes; what leaves is lost."""
    frame = F.pad(x, (7, 7, 7, 7))
    corners = torch.randint(0, 2, (len(x), 2), generator=_rng()) * 14
    return torch.stack(
        [f[:, a : a + 28, b : b + 28] for f, (a, b) in zip(frame, corners.tolist(), strict=True)]
    )


def _gaussian(x: Tensor) -> Tensor:
    """Pixels from a normal distribution with the mean and spread of the images."""
    drawn = torch.randn(x.shape, generator=_rng(3))
    return (drawn * x.std() + x.mean()).clamp(0, 1)


def _crops() -> Tensor:
    """Pieces of 32 x 32 pixels of street scenes."""
    with lzma.open(_folder() / "camvid" / "camvid_val_120x90_x.npy.xz") as file:
        scenes = torch.from_numpy(np.load(file)).permute(0, 3, 1, 2).float() / 255
    tiles = scenes.unfold(2, 32, 20).unfold(3, 32, 20)
    return tiles.permute(0, 2, 3, 1, 4, 5).reshape(-1, 3, 32, 32)[::2]


def _other_photographs() -> Tensor:
    """Tiny ImageNet without animals, cars and ships that CIFAR-10 has classes for."""
    folder = _folder() / "tiny-imagenet"
    names = [line.split("\t")[2] for line in (folder / "classes.tsv").read_text().splitlines()]
    alike = (
        "cat", "dog", "terrier", "retriever", "shepherd", "poodle", "chihuahua", "frog", "toad",
        "car", "wagon", "convertible", "limousine", "truck", "bus", "ship", "boat", "gondola",
        "goose", "albatross", "penguin", "stork", "king", "tabby", "lion", "cougar", "ox",
        "gazelle", "jet", "trolley", "lifeboat", "black", "yorkshire", "bird", "pickup", "moving",
    )  # fmt: skip
    kept = [not any(word in name.lower() for word in alike) for name in names]
    with np.load(folder / "tiny_imagenet_32x32_3000_y.npz") as file:
        labels = file[file.files[0]]
    return _photographs("tiny-imagenet")[torch.tensor(kept)[torch.from_numpy(labels).long()]]


def _design_mnist(x: Tensor) -> Sets:
    return {"letters": _letters(), "turned by 90 degrees": x.rot90(1, (2, 3)), "inverted": 1 - x}


def _held_mnist(x: Tensor) -> Sets:
    sets = {"kuzushiji_mnist": _first("kuzushiji_mnist"), "fashion_mnist": _first("fashion_mnist")}
    return {**sets, "moved by 7 pixels": _moved(x), "svhn, gray": _gray(_photographs("svhn"))}


def _design_fashion(x: Tensor) -> Sets:
    return {"letters": _letters(), "cifar10, gray": _gray(_first("cifar10")), "inverted": 1 - x}


def _held_fashion(x: Tensor) -> Sets:
    sets = {"mnist": _first("mnist"), "kuzushiji_mnist": _first("kuzushiji_mnist")}
    return {**sets, "Gaussian noise": _gaussian(x)}


def _design_cifar(x: Tensor) -> Sets:
    colored = F.pad(_first("mnist"), (2, 2, 2, 2)).expand(-1, 3, -1, -1)
    return {"tiny imagenet": _other_photographs(), "mnist": colored, "inverted": 1 - x}


def _held_cifar(x: Tensor) -> Sets:
    return {"svhn": _photographs("svhn"), "street scenes": _crops(), "Gaussian noise": _gaussian(x)}


def _uci(name: str, target: int, columns: int) -> Pair:
    """Standardized columns of a table, and its target in three classes of equal size."""
    with tarfile.open(_folder() / "uci" / f"{name}.tar.xz") as archive:
        file = archive.extractfile(f"{name}/data/data.txt")
        assert file is not None
        rows = torch.from_numpy(np.loadtxt(file)).double()
    x, value = rows[:, :columns], rows[:, target]
    x = x[:, x.std(0) > 0]
    edges = value.quantile(torch.tensor([1 / 3, 2 / 3], dtype=value.dtype))
    return ((x - x.mean(0)) / x.std(0)).float(), torch.bucketize(value.contiguous(), edges)


def _table(x: Tensor, y: Tensor, out: Tensor, ood: Callable[[Tensor], Sets]) -> Material:
    """Rows in `out` are not trained on: they are an OOD set."""
    inner, labels = x[~out], y[~out]
    order = torch.randperm(len(inner), generator=_rng())[:16_000]
    calibration = min(CALIBRATION, len(order) // 4)
    cuts = [calibration, min(TEST, len(order) // 6)]
    held, judged, train = order.split([*cuts, len(order) - sum(cuts)])
    mixed = torch.randperm(int(out.sum()), generator=_rng(1))[:OUT]
    return Material(
        (inner[train], labels[train]),
        (inner[held], labels[held]),
        inner[judged],
        {"rows left out": x[out][mixed], **ood(inner[judged][:OUT])},
    )


def _protein() -> Material:
    x, y = _uci("protein-tertiary-structure", 0, 10)
    x = x[:, 1:] if x.shape[1] == 10 else x
    drawn = _rng(4)

    def sets(rows: Tensor) -> Sets:
        wrong = rows.clone()
        column = torch.randint(x.shape[1], (len(rows),), generator=drawn)
        wrong[torch.arange(len(rows)), column] *= 10
        return {"one number 10 times as large": wrong, "signs changed": -rows}

    return _table(x, y, x[:, 0] > 1.7, sets)


def _naval() -> Material:
    x, y = _uci("naval-propulsion-plant", 16, 16)

    def sets(rows: Tensor) -> Sets:
        stuck = rows.clone()
        column = torch.randint(x.shape[1], (len(rows),), generator=_rng(5))
        stuck[torch.arange(len(rows)), column] = 0.0
        order = torch.randperm(len(rows), generator=_rng(6))
        half = x.shape[1] // 2
        return {
            "one sensor at its mean": stuck,
            "halves of two rows": torch.cat([rows[:, :half], rows[order][:, half:]], 1),
        }

    return _table(x, y, x[:, 0] > 1.3, sets)


def _diabetes() -> Material:
    """Encounters of patients from 30 years on: numbers standardized, categories as 0 and 1."""
    with lzma.open(_folder() / "medical" / "diabetes-130" / "diabetic_data.csv.xz", "rt") as file:
        rows = list(csv.DictReader(file))[::4]
    numbers = (
        "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications",
        "number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses",
    )  # fmt: skip
    marks = (
        "race", "gender", "age", "admission_type_id", "admission_source_id", "A1Cresult",
        "insulin", "change", "metformin", "diabetesMed", "max_glu_serum",
    )  # fmt: skip
    values = torch.tensor([[float(row[name]) for name in numbers] for row in rows])
    values = (values - values.mean(0)) / values.std(0)
    levels = [sorted({row[name] for row in rows}) for name in marks]
    codes = torch.tensor(
        [[own.index(row[name]) for own, name in zip(levels, marks, strict=True)] for row in rows]
    )
    hot = [F.one_hot(codes[:, i], len(own)).float() for i, own in enumerate(levels)]
    x = torch.cat([values, *hot], 1)
    y = torch.tensor([("NO", ">30", "<30").index(row["readmitted"]) for row in rows])
    young = torch.tensor([row["age"] in ("[0-10)", "[10-20)", "[20-30)") for row in rows])

    def sets(rows: Tensor) -> Sets:
        hours = rows.clone()
        hours[:, 0] = rows[:, 0] * 24 + 30  # days in hospital given as hours
        mixed = rows.clone()
        for column in range(len(numbers)):
            mixed[:, column] = rows[torch.randperm(len(rows), generator=_rng(column)), column]
        return {"hours instead of days": hours, "numbers of other rows": mixed}

    return _table(x, y, young, sets)


def _ts(name: str) -> tuple[list[list[list[float]]], list[str]]:
    cases, labels = [], []
    for part in ("TRAIN", "TEST"):
        with lzma.open(_folder() / "sequences" / f"{name}_{part}.ts.xz", "rt") as file:
            lines = [line.strip() for line in file]
        for line in lines[lines.index("@data") + 1 :]:
            *channels, label = line.split(":")
            cases.append([[float(number) for number in c.split(",")] for c in channels])
            labels.append(label)
    return cases, labels


def _sequences(x: Tensor, y: Tensor, sets: Callable[[Tensor], Sets]) -> Material:
    order = torch.randperm(len(x), generator=_rng())
    count = len(x)
    train, held, judged = order.split([count // 2, count // 4, count - count // 2 - count // 4])
    return Material((x[train], y[train]), (x[held], y[held]), x[judged], sets(x[judged]))


def _power_demand() -> Material:
    cases, labels = _ts("ItalyPowerDemand")
    x, y = torch.tensor(cases), torch.tensor([int(float(label)) - 1 for label in labels])
    other = F.interpolate(torch.tensor(_ts("GunPoint")[0]), size=24, mode="linear")

    def sets(rows: Tensor) -> Sets:
        return {"other sequences": other, "one constant added": rows + 1.5, "upside down": -rows}

    return _sequences(x, y, sets)


def _vowels() -> Material:
    """Seven speakers, padded with zeros to 29 steps; two other speakers are OOD."""
    cases, labels = _ts("JapaneseVowels")
    x = torch.zeros(len(cases), 12, 29)
    for row, case in zip(x, cases, strict=True):
        row[:, : len(case[0])] = torch.tensor(case)
    y = torch.tensor([int(label) - 1 for label in labels])

    def sets(rows: Tensor) -> Sets:
        noisy = rows + 0.3 * torch.randn(rows.shape, generator=_rng(8)) * (rows != 0)
        return {"other speakers": x[y >= 7], "backwards": rows.flip(2), "noisy": noisy}

    return _sequences(x[y < 7], y[y < 7], sets)


def _gray_case(name: str, held_back: bool, make: Callable[[], nn.Module]) -> Case:
    data = "mnist" if name.startswith("mnist") else "fashion_mnist"
    kinds = {
        "mnist": (_design_mnist, _held_mnist),
        "fashion_mnist": (_design_fashion, _held_fashion),
    }
    material = partial(_split, data, 12_000, kinds[data][held_back])
    return Case(name=name, held_back=held_back, make=make, material=material, epochs=4)


def _color_case(name: str, held_back: bool, make: Callable[[], nn.Module], epochs: int) -> Case:
    material = partial(_split, "cifar10", 20_000, _held_cifar if held_back else _design_cifar)
    return Case(name=name, held_back=held_back, make=make, material=material, epochs=epochs)


def _table_case(
    name: str, held_back: bool, make: Callable[[], nn.Module], material: Callable[[], Material]
) -> Case:
    table = not name.startswith("sequences")
    epochs = 15 if table else 60
    return Case(
        name=name, held_back=held_back, make=make, material=material, epochs=epochs, table=table
    )


CASES = (
    _gray_case("mnist, lenet", False, lenet),
    _gray_case("fashion, plain", False, partial(plain, 1, 16)),
    _color_case("cifar10, plain", False, partial(plain, 3, 24), 6),
    _table_case("protein, relu_mlp", False, partial(relu_mlp, 9, 3), _protein),
    _table_case("sequences: power demand", False, partial(convolved_sequence, 1, 2), _power_demand),
    _gray_case("mnist, gelu_mlp", True, partial(gelu_mlp, 784, 10)),
    _gray_case("mnist, mixer", True, partial(mixer, 1, 48, 4)),
    _gray_case("fashion, resnet", True, partial(resnet, 1, 12)),
    _color_case("cifar10, resnet", True, partial(resnet, 3, 20), 6),
    _color_case("cifar10, mixer", True, partial(mixer, 3, 96, 4), 6),
    _table_case("naval, gelu_mlp", True, partial(gelu_mlp, 14, 3), _naval),
    _table_case("diabetes, gelu_mlp", True, partial(gelu_mlp, 70, 3), _diabetes),
    _table_case("sequences: vowels", True, partial(recurrent, 12, 7), _vowels),
)


def trained(case: Case, material: Material, cache: Path) -> nn.Module:
    """The network of a case; weights are stored, so that a second run does not train."""
    torch.manual_seed(0)
    net = case.make()
    digest = hashlib.sha256(f"{net} {case.epochs} {case.rate}".encode()).hexdigest()[:8]
    path = cache / f"{case.name.replace(', ', '-').replace(': ', '-')}-{digest}.pt"
    if path.exists():
        net.load_state_dict(torch.load(path, weights_only=True))
        return net.eval()
    x, y = material.train
    images = x.ndim == 4
    if images:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = 128 if len(x) > 2000 else 32
    steps = case.epochs * (len(x) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=case.rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, case.rate * 2, steps)
    for rows in _batches(len(x), batch, case.epochs):
        own = x[rows].contiguous(memory_format=torch.channels_last) if images else x[rows]
        if images and x.shape[1] == 3:  # photographs are mirrored
            own = own.flip(3) if torch.rand(()) < 0.5 else own
        loss = F.cross_entropy(net(own), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    cache.mkdir(parents=True, exist_ok=True)
    torch.save(net.state_dict(), path)
    return net.eval()


def _batches(samples: int, size: int, epochs: int) -> Iterator[Tensor]:
    for epoch in range(epochs):
        order = torch.randperm(samples, generator=_rng(epoch))
        yield from order[: samples // size * size].split(size)
