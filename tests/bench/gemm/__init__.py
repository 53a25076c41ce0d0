"""The parts of tests/bench/gemm_peers.py.

SPDX-License-Identifier: Apache-2.0
"""
