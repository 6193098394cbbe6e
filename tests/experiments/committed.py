"""The studies of configs/, loaded once."""

from pathlib import Path

from leadline.experiments.config.load import load_studies
from leadline.experiments.config.study import Study

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
COMMITTED: list[tuple[Path, Study]] = [
    (path, study) for path in sorted(CONFIGS.rglob("*.toml")) for study in load_studies(path)
]
