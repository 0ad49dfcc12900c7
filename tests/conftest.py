"""What all tests share: the support modules on the import path, and how a missing server is treated."""

import os
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent / "support"
sys.path.insert(0, str(SUPPORT))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
