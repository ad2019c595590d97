"""Every strategy and axis as am-run's processes on the host: the losses of PyTorch. run_gpu_test.py has the same on GPUs."""

from curve_support import CurveTest


class StrategiesTest(CurveTest):
    def test_strategies(self):
        self.strategies("gloo")

    def test_zero_bubble(self):
        self.zero_bubble("gloo")

    def test_experts(self):
        self.experts("gloo")
