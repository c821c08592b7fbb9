/* SPDX-License-Identifier: Apache-2.0
 *
 * libcadre is the rooms joined; the public symbols are those that include/cadre marks with
 * CADRE_API.
 */
#include <cadre/cadre.h>

_Static_assert(sizeof(cadre_status) == sizeof(int),
               "a status is an int in every language that calls us");
