"""Exploration: agents that act where they do not know, to find out."""

from nescio.applications.exploration.agents import Agent as Agent
from nescio.applications.exploration.agents import dropout as dropout
from nescio.applications.exploration.agents import ensemble as ensemble
from nescio.applications.exploration.agents import epsilon_greedy as epsilon_greedy
from nescio.applications.exploration.bandit import Bandit as Bandit
from nescio.applications.exploration.chain import Chain as Chain
from nescio.applications.exploration.environment import ContinuingRuns as ContinuingRuns
from nescio.applications.exploration.environment import Environment as Environment
from nescio.applications.exploration.environment import Runs as Runs
from nescio.applications.exploration.environment import as_actions as as_actions
from nescio.applications.exploration.gym import GymEnvironment as GymEnvironment
from nescio.applications.exploration.gym import cart_pole as cart_pole
from nescio.applications.exploration.gym import mountain_car as mountain_car
from nescio.applications.exploration.learn import learn as learn
from nescio.applications.exploration.learner import QLearner as QLearner
from nescio.applications.exploration.learner import learner as learner
from nescio.applications.exploration.maze import Maze as Maze
from nescio.applications.exploration.q_learning import QLearning as QLearning
from nescio.applications.exploration.rewards import EpisodesTo as EpisodesTo
from nescio.applications.exploration.rewards import Rewards as Rewards
