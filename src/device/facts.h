/* Facts of the device that kernels were made for, ahead of time: as text, and how they fit a device that is here. */
#ifndef MD_DEVICE_FACTS_H
#define MD_DEVICE_FACTS_H

#include "base/strbuf.h"
#include "device/device.h"

/** Appends the facts that choices and kernels depend on, as one line of JSON. */
void md_dev_facts_print(md_strbuf *out, const md_dev_facts *facts);
/** CORRUPT. What is not in the text is 0. */
md_status md_dev_facts_read(md_dev_facts *out, const char *text, size_t n);

/** How far facts are from those of this device, for which their kernels can run: 0 for its own, the less the better.
 * Negative: their kernels cannot run here. */
double md_dev_facts_distance(const md_dev_facts *assumed, const md_dev *dev);
/** Kernels are those that were made for these facts. Before the first op. OUT_OF_MEMORY. */
md_status md_dev_assume(md_dev *dev, const md_dev_facts *assumed);

#endif
