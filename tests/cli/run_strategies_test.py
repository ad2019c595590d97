"""Every strategy and axis in am-run processes on the host: PyTorch's losses. run_gpu_test.py does
the same on GPUs."""

from curve_support import CurveTest


class StrategiesTest(CurveTest):
    def test_strategies(self):
        self.strategies("gloo")

    def test_zero_bubble(self):
        self.zero_bubble("gloo")

    def test_experts(self):
        self.experts("gloo")
