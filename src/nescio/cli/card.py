"""`nescio card`: the safety card of an audited network."""

from pathlib import Path

import click

from nescio.cli import options as opt
from nescio.cli.options import option
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("audit", metavar="AUDIT", type=opt.PATH),
    opt.argument("guard", required=False, metavar="[GUARD]", type=opt.PATH),
    option("--out", "The file to write.", default="card.json", type=opt.PATH, metavar="FILE"),
    option("--markdown", "Also write a section for a model card, in Markdown.", type=opt.PATH,
        metavar="FILE"),
    option("--key", "Sign the card: a PEM file with an Ed25519 key (needs the package cryptography)"
        ", or a file with a shared secret of 32 bytes or more.", type=opt.PATH, metavar="FILE"),
]
# fmt: on


EXAMPLES = {
    "of an audit and the guard that it wrote": "nescio card new/audit.json new/guard.safetensors "
    "--out card.json",
    "with a section for a model card": "nescio card new --out card.json --markdown model-card.md",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/card.md")
def card(audit: str, guard: str | None, out: str, markdown: str | None, key: str | None) -> None:
    """Write a safety card: what was audited, and what is guaranteed.

    AUDIT is an audit.json, or its folder; GUARD the file of a guard of the same network, such as
    the one that `nescio audit` writes. The card holds SHA-256 of the weights, the data and the
    files, the guarantees, what was proved, every number as printed, the versions and the commands.
    `nescio verify` checks all of it.

    A key for signatures, and its public part, which those who verify need:

    \b
      openssl genpkey -algorithm ed25519 -out key.pem
      openssl pkey -in key.pem -pubout -out public.pem
    """
    from nescio.core import load, write_atomically  # its help needs none of this
    from nescio.evaluation import make_card
    from nescio.report import card_text

    made = make_card(audit, guard)
    if key is not None:
        made = made.signed(key)
    made.save(out)
    click.echo(card_text(made))
    if markdown is not None:
        write_atomically(Path(markdown), load(audit).model_card())
        click.echo(f"model card: {markdown}")
    click.echo(f"card: {out}; check it with: nescio verify {out}")
