"""A pytest plugin: hypothesis tries the same examples every time, and spends no minutes on making a counterexample small."""

from hypothesis import Phase, settings

settings.register_profile("unshrunk", derandomize=True, database=None, phases=(Phase.explicit, Phase.generate))
settings.load_profile("unshrunk")
