"""OOD sources: inputs a network should not be confident about, by index."""

from nescio.data.ood.drawn import faded as faded
from nescio.data.ood.drawn import overlaid as overlaid
from nescio.data.ood.drawn import patches as patches
from nescio.data.ood.drawn import shapes as shapes
from nescio.data.ood.drawn import strokes as strokes
from nescio.data.ood.from_inputs import from_inputs as from_inputs
from nescio.data.ood.noise import paper_noise as paper_noise
from nescio.data.ood.noise import permuted as permuted
from nescio.data.ood.noise import shuffled as shuffled
from nescio.data.ood.noise import smoothed as smoothed
from nescio.data.ood.noise import uniform as uniform
from nescio.data.ood.source import OODSource as OODSource
from nescio.data.ood.source import another as another
from nescio.data.ood.source import mixture as mixture
from nescio.data.ood.source import scaled as scaled
from nescio.data.ood.source import stored as stored
