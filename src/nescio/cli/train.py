"""`nescio train`: a recipe on a data set, from names to a saved predictor."""

from typing import Any

import click

from nescio.cli import options as opt
from nescio.cli.options import data_option, option, titled
from nescio.cli.verbs import Verb

# fmt: off
PARAMETERS = [
    opt.argument("recipe", type=opt.Name("recipes")),
    *titled("The data",
        data_option("data", "The data: the name of a data set, an .npz file with x and y, a .ts "
            "file of sequences, or, with --target, a .csv or .parquet file.", required=True),
        option("--target", "The column of a .csv or .parquet file that is predicted: text or a few "
            "whole numbers are classes, other numbers a regression.", metavar="COLUMN"),
        option("--class-names", "The classes in a column of text, in the order of the network's "
            "outputs.  [default: alphabetical]", metavar="A,B,..."),
        option("--regression", "Predict numbers, where --target has a few whole ones.",
            is_flag=True),
        option("--augment", "Random changes of images: crops, mirrors or crops,mirrors; crops=2 "
            "for a width of 2 pixels instead of 4; mirrored_crops without black edges, for recipes "
            "with OOD images; affine=15 for rotations up to 15 degrees, small shears, scalings "
            "and shifts; colors=0.2 for brightness, contrast and tint; noise=0.1 for noise on "
            "any inputs.  [default: none]", metavar="NAMES",
            type=opt.Name("augments")),
        option("--standardize", "Scale inputs by the mean and the standard deviation of the "
            "training data.", is_flag=True),
        option("--standardize-targets", "Learn the targets of a regression scaled by their mean "
            "and standard deviation; predictions are in the units of the targets.", is_flag=True),
        option("--ignore-index", "The label of what is left out, which is not one of the classes: "
            "pixels of a label map y (N, H, W) without a class.  [default: that of a data set with "
            "a name, otherwise none]", type=int),
        option("--unlabeled", "Inputs without labels, for recipes such as mean_teacher: an .npz "
            "file with x alone, a table without the target, or the training inputs of a data set.",
            metavar="DATA", type=opt.DATA),
        option("--unlabeled-size", "The number of unlabeled inputs per step.  [default: the batch "
            "size]", type=opt.POSITIVE),
        option("--labels", "Train on this number of labeled samples, drawn by --seed, equally many "
            "of each class.  [default: all]", type=opt.POSITIVE),
    ),
    *titled("The model",
        option("--net net_name", "A network of `nescio list nets`, also with options, such as "
            "lstm,width=32, or package.module:factory.  [default: small_cnn or digit_cnn for "
            "images, dilated_cnn for label maps, mlp for other inputs]", metavar="NAME",
            type=opt.Name("nets")),
        option("--head", "What the network's outputs are, of `nescio list heads`: binary for one "
            "logit of two classes, dirichlet, fixed_variance and so on.  [default: categorical, or "
            "gaussian for a regression]", metavar="NAME", type=opt.Name("heads")),
        option("--option -o options", "An option of the recipe, for example -o members=10; `nescio "
            "list recipes RECIPE` explains them. Repeatable.", multiple=True, metavar="NAME=VALUE"),
        option("--calibrate", "A calibration of `nescio list calibrators`, such as temperature, "
            "fitted on the validation data.  [default: none]", metavar="NAME",
            type=opt.Name("calibrators")),
    ),
    *titled("The training",
        option("--start", "The folder of a run whose weights to start from, for fine-tuning: the "
            "same network, trained before.  [default: random weights]", metavar="RUN",
            type=opt.PATH),
        option("--epochs", "The number of passes through the training data.", default=50,
            type=opt.POSITIVE),
        option("--batch-size", "The number of samples per step; 0 takes all at once.",
            default=100),
        option("--learning-rate", "The step size of the optimizer.", default=1e-3),
        option("--optimizer", "The optimizer: adam, sgd, or with --batch-size 0 lbfgs, also as "
            "lbfgs,tolerance=1e-6.", default="adam", type=opt.Name("optimizers")),
        option("--schedule", "How the learning rate changes.", default="constant",
            type=opt.Choice(["constant", "cosine", "drops", "ramps"])),
        option("--clip", "The largest gradient norm of a member.  [default: no limit]",
            type=float),
        option("--patience", "Stop a member after this number of epochs without a better "
            "validation loss.  [default: never]", type=int),
        option("--average", "The decay, such as 0.999, of a moving average of the weights, which "
            "is validated and saved instead of the last weights.  [default: no average]",
            type=float),
        option("--precision", "The numbers of products and convolutions in a training step: "
            "bfloat16 is faster on recent processors, and a little less exact.",
            default="float32", type=opt.Choice(["float32", "bfloat16"])),
    ),
    option("--run", "The folder of the run; a stopped run is resumed there.", required=True,
        type=opt.PATH),
    opt.DEVICE,
    opt.ENGINE,
    opt.ADDRESS,
    opt.SEED,
]
# fmt: on
EXAMPLES = {
    "one network on a data set that is part of nescio": "nescio train single --data half_moons "
    "--run runs/moons --epochs 20",
    "an ensemble of images, with a temperature": "nescio train deep_ensemble --data digits "
    "--run runs/digits -o members=3 --epochs 5 --calibrate temperature",
    "a table with text and empty cells; keep= names the column of ids": "nescio train "
    "deep_ensemble --data patients.csv:keep=name --target died --run runs/patients "
    "-o members=2 --epochs 10",
    "your arrays x and y, and your network with dropout": "nescio train single "
    "--data train.npz --net mymodule:make_net --run runs/own --standardize --epochs 10",
    "networks that are less confident on noise around the data": "nescio train acet "
    "--data half_moons --run runs/acet --epochs 2",
    "six labels, and the other inputs without theirs": "nescio train mean_teacher "
    "--data half_moons --labels 6 --unlabeled half_moons --run runs/few --augment noise=0.1 "
    "--batch-size 0 --unlabeled-size 100 --epochs 20",
}


@click.command(cls=Verb, params=PARAMETERS, examples=EXAMPLES, page="guide/training.md")
def train(**words: Any) -> None:
    """Train a network or an ensemble by a recipe, and save it.

    RECIPE is one of `nescio list recipes`, such as single, deep_ensemble or dropout. The same
    command with the same folder resumes a run that was stopped, to the same result; a finished run
    is only read. `nescio predict`, `nescio guard` and `nescio audit` take the folder.

    An .npz file has x and y, or parts x_train, y_train, x_validation, ...; integer y are classes,
    other numbers the targets of a regression, and uint8 images are divided by 255. Of x and y, and
    of a table, 80 % of the rows are for training, 10 % for validation and 10 % for testing. Columns
    may hold text and empty cells: how they are encoded is learned from the training rows, stored
    with the model, and used by all commands that take the folder. keep= names ids, which are not
    inputs and are copied beside the predictions; without= leaves columns out.
    """
    from nescio.cli.work.train import train_named

    train_named(**words)
