"""Attacks: the point near an input where an objective is highest."""

from nescio.attacks.ascent import Ascent as Ascent
from nescio.attacks.ascent import crossing_step as crossing_step
from nescio.attacks.balls import Norm as Norm
from nescio.attacks.balls import l1 as l1
from nescio.attacks.balls import l2 as l2
from nescio.attacks.balls import linf as linf
from nescio.attacks.balls import norm_named as norm_named
from nescio.attacks.judge import Judged as Judged
from nescio.attacks.named import Attacked as Attacked
from nescio.attacks.named import adversarial_noise as adversarial_noise
from nescio.attacks.named import adversarial_samples as adversarial_samples
from nescio.attacks.named import fgsm as fgsm
from nescio.attacks.named import pgd as pgd
from nescio.attacks.objectives import answer_of as answer_of
from nescio.attacks.objectives import class_confidence as class_confidence
from nescio.attacks.objectives import confidence as confidence
from nescio.attacks.objectives import label_loss as label_loss
from nescio.attacks.objectives import leaking as leaking
from nescio.attacks.objectives import margin as margin
from nescio.attacks.objectives import uncertainty as uncertainty
from nescio.attacks.objectives import wrong_confidence as wrong_confidence
from nescio.attacks.patch import Patch as Patch
from nescio.attacks.patch import patch as patch
from nescio.attacks.strong import strong_noise as strong_noise
from nescio.attacks.strong import strong_samples as strong_samples
from nescio.attacks.views import Views as Views
