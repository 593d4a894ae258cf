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
TUNED: Mapping[str, Any] = {
    "learning_rate": 0.05,
    "augment": [crops(4, edge="mirror"), mirrors()],
}  # of networks that start from a trained one; black edges would tell images from noise
residual_network = nets.resnet  # ResNet-20


def decayed(loss: Loss) -> Loss:
    """A loss with weight decay."""
    return losses.weight_decay(loss, strength=DECAY)
