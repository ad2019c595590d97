"""Losses of am-run equal PyTorch's for every strategy and mesh axis, on the host over Gloo.
run_gpu_test.py checks GPUs."""

from curve_support import CurveTest


class StrategiesTest(CurveTest):
    def test_strategies(self):
        self.strategies("gloo")

    def test_zero_bubble(self):
        self.zero_bubble("gloo")

    def test_experts(self):
        self.experts("gloo")
