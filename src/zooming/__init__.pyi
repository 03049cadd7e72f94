# The public names, written only here: type checkers read this file, and `zooming/__init__.py` reads
# it to find the module of each name.
from zooming import bonuses as bonuses
from zooming import callbacks as callbacks
from zooming import errors as errors
from zooming import metrics as metrics
from zooming import plots as plots
from zooming import theory as theory
from zooming.agents.auto.auto import Auto as Auto
from zooming.agents.auto.portfolio import Portfolio as Portfolio
from zooming.agents.files.checkpoints import load as load
from zooming.agents.heuristics import Median as Median
from zooming.agents.heuristics import NoMovement as NoMovement
from zooming.agents.heuristics import Random as Random
from zooming.agents.planner.planner import Planner as Planner
from zooming.agents.resolver import Resolver as Resolver
from zooming.agents.tables.adaptive_q import AdaptiveQ as AdaptiveQ
from zooming.agents.tables.metric_q import MetricQ as MetricQ
from zooming.agents.tables.net_q import NetQ as NetQ
from zooming.agents.tables.tree_q import TreeQ as TreeQ
from zooming.agents.training.many import learn_many as learn_many
from zooming.analysis.audit import audit as audit
from zooming.analysis.evaluate import evaluate as evaluate
from zooming.analysis.plan import plan as plan
from zooming.analysis.solve import solve as solve
from zooming.desk.desk import Desk as Desk
from zooming.envs.declared import compiled_env as compiled_env
from zooming.envs.records import Records as Records
from zooming.export.rules import explain as explain
from zooming.lab.relatives.model_based import AdaptiveMB as AdaptiveMB
from zooming.lab.relatives.model_based import NetMB as NetMB
from zooming.lab.relatives.randomized_q import RandomizedQ as RandomizedQ
from zooming.lab.relatives.single_partition_q import SinglePartitionQ as SinglePartitionQ
from zooming.lab.study.study import Study as Study
from zooming.lab.study.study import read_study as read_study
from zooming.lab.tune import tune as tune
from zooming.logs.evaluate_on import evaluate_on as evaluate_on
from zooming.logs.record import record as record
from zooming.testing import check_agent as check_agent

# The names above are `zooming.__all__`. Those below are found as `zooming.NAME`, too: users receive
# them, catch them, or call the method of an agent instead. docs/api.md has both. Other types that
# users receive (Partition, Optimal, Evaluation, Audit, Certificate, ...) are in their modules only.
__all__: list[str]

from zooming.agents.base.agent import Agent as Agent
from zooming.agents.training.history import History as History
from zooming.analysis.pac import learn_pac as learn_pac
from zooming.analysis.regret import Regret as Regret
from zooming.analysis.regret import regret_exponent as regret_exponent
from zooming.analysis.reward_range import reward_range as reward_range
from zooming.errors import CheckpointError as CheckpointError
from zooming.errors import ConfigurationError as ConfigurationError
from zooming.errors import SpaceError as SpaceError
from zooming.errors import TransitionError as TransitionError
from zooming.errors import ZoomingError as ZoomingError
from zooming.export.write import export_policy as export_policy
from zooming.lab.relatives.nearest_neighbor_q import NearestNeighborQ as NearestNeighborQ
from zooming.logs.learn import learn_from as learn_from
from zooming.logs.record import to_log as to_log
from zooming.version import __version__ as __version__
