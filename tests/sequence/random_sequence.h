/* Random sequences on the host device, and the same calls made one by one, each tensor in memory of its own. Values are
 * small whole numbers, so that both must agree in every bit. */
#ifndef MD_TESTS_SEQUENCE_RANDOM_SEQUENCE_H
#define MD_TESTS_SEQUENCE_RANDOM_SEQUENCE_H

#include <md/sequence.h>
#include <stdbool.h>

typedef struct random_sequence random_sequence;

/** Makes a sequence of about n_calls calls, with views, callbacks and outputs in between. */
random_sequence *random_sequence_make(md_context *context, uint64_t *state, int n_calls, bool poisons);
/** Runs both at random sizes (0 to 40), sometimes with the memory of the last run. False if they differ. */
bool random_sequence_agrees(random_sequence *r, uint64_t *state);
md_sequence *random_sequence_of(random_sequence *r);
void random_sequence_destroy(random_sequence *r);

#endif
