/* SPDX-License-Identifier: Apache-2.0
 *
 * The simplest store: every parameter and gradient in an array of its own. For gradient checks,
 * evaluation of a loaded model
 * (`cadre generate`) and tests; training uses parallel's.
 */
#ifndef CADRE_TAPE_PLAIN_STORE_H
#define CADRE_TAPE_PLAIN_STORE_H

#include "tape/parameter.h"

typedef struct cadre_plain_store cadre_plain_store;

/* `gradients` false: values alone; then `gradient` answers NULL. Values and gradients start at
 * zero. */
cadre_status cadre_plain_store_open(cadre_plain_store **ret_store,
                                    const cadre_parameter *const *params, int count,
                                    bool gradients);
const cadre_param_store *cadre_plain_store_view(cadre_plain_store *s);
void *cadre_plain_store_value(cadre_plain_store *s, int id);
void *cadre_plain_store_gradient(cadre_plain_store *s, int id);
void cadre_plain_store_zero(cadre_plain_store *s); /* the next use of each gradient overwrites */
void cadre_plain_store_close(cadre_plain_store **s);

#endif
