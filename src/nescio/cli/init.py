"""`nescio init`: a commented script that audits and guards a network."""

from pathlib import Path

import click

from nescio.cli import options as opt
from nescio.cli.options import argument, data_option, option
from nescio.cli.verbs import Verb

TOP = '''"""Audit a network and guard it. Written by `nescio init`; change it as you like.

Run it:  python {name}
It writes a page, nescio-audit/audit.html, and a guard, and ends with the status of the audit:
0 pass, 2 attention, 3 fail.
"""

import sys

import nescio
{imports}

def load_net():
    """Your network: it returns raw logits (samples, classes), without softmax."""
{load_net}


def load_data():
    """Training data, and test data that no choice was made on: inputs and labels."""
{load_data}


def main():
    net = load_net()
    train, test = load_data()

    # How far can it be trusted: on its data, on noise, under attack, infinitely far away?
    audit = nescio.audit(
        net,
        test,
        train=train,  # fits the detector of the guard; leave it out if you do not have it
        budget="{budget}",  # quick, standard or thorough
        # ood={{"other images": x_other}},  # inputs on which it should not be confident
        # groups={{"hospital": hospitals}},  # the group of each test sample
        # class_names=["cat", "dog"],
        # require=["accuracy>0.9", "ece<0.05"],  # your own limits: `nescio list limits`
    )
    print(audit.verdict)
    print("page:", audit.save("nescio-audit"))

    # Answer or abstain: of what the guard answers, at most 2 % are wrong (confidence 95 %).
    guard = audit.guard
    if guard is not None:
        x, y = test
        decisions = guard(x[:10])
        print(decisions)  # an answer, or None where it abstains
    return audit.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
'''
EXAMPLE = {
    "imports": "from nescio import nets\n",
    "load_net": """    digits = nescio.data.digits()  # an example: put your network here
    return nescio.train(nets.digit_cnn, digits.train, epochs=10, learning_rate=2e-3).member(0)""",
    "load_data": """    digits = nescio.data.digits()  # an example: put your data here
    return digits.train, digits.test""",
}
PARAMETERS = [
    argument("network", metavar="[NETWORK]", required=False, type=opt.PATH),
    opt.WEIGHTS,
    data_option("data", "Test data: an .npz file with x and y.  [default: digits]"),
    data_option("train", "Training data: an .npz file with x and y.  [default: none]"),
    option(
        "--budget",
        "The budget of the audit in the script.",
        default="standard",
        type=opt.Choice(["quick", "standard", "thorough"]),
    ),
    option("--out", "The script to write.", default="audit_network.py", type=opt.PATH),
    option("--force", "Replace a file that is there.", is_flag=True),
]


EXAMPLES = {
    "a script with a small network on digits, to change": "nescio init",
    "a script with your network and your data": "nescio init mymodule:make_net "
    "--weights w.safetensors --data test.npz --train train.npz --out audit_mine.py",
}


@click.command("init", cls=Verb, params=PARAMETERS, examples=EXAMPLES)
def init(
    network: str | None,
    weights: str | None,
    data_name: str | None,
    train_name: str | None,
    budget: str,
    out: str,
    force: bool,
) -> None:
    """Write a commented script that audits and guards a network.

    Without NETWORK the script trains a small network on digits, so that it runs as it is; replace
    load_net and load_data in it. With package.module:factory, --weights and .npz files they are
    filled in.
    """
    from nescio.core import NescioError, write_atomically

    path = Path(out)
    if path.exists() and not force:
        raise NescioError(f"{path} is there already; give another --out, or --force to replace it")
    parts, imports = dict(EXAMPLE), [EXAMPLE["imports"]]
    if network is not None:
        parts["load_net"] = _network(network, weights)
        imports = [f"import {network.partition(':')[0]}\n", *_reader(weights)]
    if data_name is not None:
        parts["load_data"] = _data(data_name, train_name)
        imports.append("import numpy as np\n")
    parts["imports"] = "".join(sorted(imports, reverse=True))
    write_atomically(path, TOP.format(name=path.name, budget=budget, **parts))
    click.echo(f"wrote {path}; read it, then run: python {path}")


def _network(network: str, weights: str | None) -> str:
    """The lines that make the network."""
    from nescio.core import NescioError

    module, _, factory = network.partition(":")
    words = [*module.split("."), factory]
    if not all(word.isidentifier() for word in words):
        raise NescioError(
            f"NETWORK is package.module:factory, such as mymodule:make_net; got {network!r}"
        )
    lines = [f"net = {module}.{factory}()"]
    if weights is not None and weights.endswith(".safetensors"):
        lines.append(f"net.load_state_dict(load_file({weights!r}))")
    elif weights is not None:
        lines.append(f"net.load_state_dict(torch.load({weights!r}, weights_only=True))")
    return "\n".join(f"    {line}" for line in [*lines, "return net.eval()"])


def _reader(weights: str | None) -> list[str]:
    """The import of what reads weights."""
    if weights is None:
        return []
    own = weights.endswith(".safetensors")
    return ["from safetensors.torch import load_file\n" if own else "import torch\n"]


def _data(test: str, train: str | None) -> str:
    """The lines that read .npz files with x and y."""
    from nescio.core import NescioError

    for name in (test, train):
        if name is not None and not name.endswith(".npz"):
            raise NescioError(
                f"the script reads .npz files with x and y, got {name!r}; leave --data out and "
                "write load_data yourself, or use `nescio audit` for tables and data sets"
            )
    lines = [f"test = np.load({test!r})"]
    lines += [] if train is None else [f"train = np.load({train!r})"]
    known = "None" if train is None else '(train["x"], train["y"])'
    return "\n".join(f"    {line}" for line in [*lines, f'return {known}, (test["x"], test["y"])'])
