/* SPDX-License-Identifier: Apache-2.0 */
typedef int cadre_room_is_empty_insight;
