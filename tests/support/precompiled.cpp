// The program whose build precompiles what the other tests' units include; it does nothing.
// SPDX-License-Identifier: Apache-2.0
int main() {}
