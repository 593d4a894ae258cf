"""Networks: functions that return an `nn.Module` from inputs `(N, ...)` to outputs `(N, C)`."""

from nescio.nets.convolutional import digit_cnn as digit_cnn
from nescio.nets.convolutional import lenet as lenet
from nescio.nets.convolutional import resnet as resnet
from nescio.nets.convolutional import small_cnn as small_cnn
from nescio.nets.copies import Copies as Copies
from nescio.nets.copies import copied as copied
from nescio.nets.copies import is_scripted as is_scripted
from nescio.nets.copies import sharing as sharing
from nescio.nets.copies import unwrapped as unwrapped
from nescio.nets.factory import Standardize as Standardize
from nescio.nets.factory import network as network
from nescio.nets.factory import standardized as standardized
from nescio.nets.mlp import bayesian_mlp as bayesian_mlp
from nescio.nets.mlp import mlp as mlp
from nescio.nets.rbf import centered as centered
from nescio.nets.rbf import median_gamma as median_gamma
from nescio.nets.rbf import rbf as rbf
from nescio.nets.reading import Output as Output
from nescio.nets.reading import called as called
from nescio.nets.reading import entering as entering
from nescio.nets.reading import located as located
from nescio.nets.reading import reads_tokens as reads_tokens
from nescio.nets.reading import refusing_shapes as refusing_shapes
from nescio.nets.reading import returning as returning
from nescio.nets.reading import selected as selected
