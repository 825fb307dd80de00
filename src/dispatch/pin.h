/* The text of a pin: "variant" for all stages, or "2:variant; 3:other" by stage. */
#ifndef MD_DISPATCH_PIN_H
#define MD_DISPATCH_PIN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/** INVALID_ARGUMENT names the part of `pin` that names no stage of the op, or no variant. NULL is no pin. */
md_status md_ds_pin_check(const char *pin, const char *op_name, int32_t n_stages);
/** The variant's name for a stage, malloc'ed; *out NULL where the pin has none. Later parts win. `only_by_number`:
 * parts without a number do not mean the stage. */
md_status md_ds_pin_of_stage(char **out, const char *pin, int32_t stage, bool only_by_number);

#endif
