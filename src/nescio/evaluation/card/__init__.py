"""Safety cards: what was audited and what is guaranteed, in a form that can be checked."""

from nescio.evaluation.card.card import Card as Card
from nescio.evaluation.card.card import SignedCard as SignedCard
from nescio.evaluation.card.card import make_card as make_card
from nescio.evaluation.card.card import read_card as read_card
from nescio.evaluation.card.checking import Check as Check
from nescio.evaluation.card.checking import card_files as card_files
from nescio.evaluation.card.checking import check_again as check_again
from nescio.evaluation.card.checking import check_files as check_files
from nescio.evaluation.card.checking import check_guard as check_guard
from nescio.evaluation.card.checking import check_signature as check_signature
