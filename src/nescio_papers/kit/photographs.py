"""How networks for small photographs are trained: as good as a core makes them in half an hour."""

from collections.abc import Mapping
from typing import Any

from nescio import losses, nets
from nescio.data.augmentation import crops, mirrors
from nescio.losses import Loss

EPOCHS = 40
DECAY = 2.5e-4  # times the sum of all squared weights
OPTIONS: Mapping[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "schedule": "cosine",
    "augment": [crops(4), mirrors()],
    "precision": "bfloat16",
}  # of `nescio.train`
residual_network = nets.resnet  # ResNet-20


def plain_loss() -> Loss:
    """Cross-entropy with weight decay."""
    return losses.weight_decay(losses.nll(), strength=DECAY)
