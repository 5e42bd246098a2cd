/** Events for tests of streams, which do not look at what an event says. */
import { NOTICE_GIVEN, storedEvent } from "../../src/platform/event-forms.ts";
import { atom } from "../../src/platform/sql.ts";

const NULL = atom("NULL");

/** Columns of an event's source: `account.notice` without any value. */
export const emptyNotice = storedEvent(NOTICE_GIVEN, "account.notice", {
  kind: NULL,
  subject_id: NULL,
  api_key_id: NULL,
  ip: NULL,
});
