"""Out-distributions: inputs a network should not be sure about, by number."""

from nescio.data.outside.another import another as another
from nescio.data.outside.faded import faded as faded
from nescio.data.outside.mixture import mixture as mixture
from nescio.data.outside.overlaid import overlaid as overlaid
from nescio.data.outside.paper_noise import paper_noise as paper_noise
from nescio.data.outside.patches import patches as patches
from nescio.data.outside.permuted import permuted as permuted
from nescio.data.outside.scaled import scaled as scaled
from nescio.data.outside.shapes import shapes as shapes
from nescio.data.outside.shuffled import shuffled as shuffled
from nescio.data.outside.smoothed import smoothed as smoothed
from nescio.data.outside.stored import stored as stored
from nescio.data.outside.strokes import strokes as strokes
from nescio.data.outside.uniform import uniform as uniform
from nescio.data.outside.value import Outside as Outside
