"""The studies of configs/, loaded once. Files that list others have none of their own."""

import tomllib
from pathlib import Path

from leadline.experiments.config.load import load_studies
from leadline.experiments.config.study import Study

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
COMMITTED: list[tuple[Path, Study]] = [
    (path, study)
    for path in sorted(CONFIGS.rglob("*.toml"))
    if "studies" not in tomllib.loads(path.read_text(encoding="utf-8"))
    for study in load_studies(path)
]
PLANNED = [study for path, study in COMMITTED if path.parent.name == "accelerator"]  # studies that were not run
