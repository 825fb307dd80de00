/* The formulas of a test program, each in a process of its own. */
#ifndef MD_TESTS_SUPPORT_PROCESSES_H
#define MD_TESTS_SUPPORT_PROCESSES_H

/** Starts this program once more for each i < n with MD_TEST_FORMULA=i, one process for every two processors at a time
 * (other tests run beside them), and prints what each wrote when it ends. Processes rather than threads: NVRTC lets one
 * thread of a process compile at a time. Returns how many did not end with 0. */
int processes_each_formula(int n);

#endif
