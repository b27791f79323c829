"""Every run of the tests draws the same examples: a failure is found again by running it again."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fleetsieve",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("fleetsieve")
