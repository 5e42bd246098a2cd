/** The wire form of every event type, and which of them an account stream has. */
import { CUSTODY_EVENTS } from "../custody/custody-events.ts";
import { readEvent, type StoredEvent } from "../platform/event-forms.ts";
import { RFQ_EVENTS } from "../rfq/rfq-events.ts";
import { NOTICE_EVENTS } from "../streams/notice.ts";
import { eventViews } from "../streams/render.ts";

export const EVENT_VIEWS = eventViews(RFQ_EVENTS, CUSTODY_EVENTS, NOTICE_EVENTS);

/** Of which webhooks deliver events. Quotes are too many and end too soon. */
export const WEBHOOK_TYPES = Object.keys(EVENT_VIEWS.views).filter((type) =>
  /^(match\.created|deposit\..*|withdrawal\..*|protection\.tripped|account\.notice|market\..*)$/.test(
    type,
  ),
);

export function codesOfTypes(types: readonly string[]): number[] {
  return [...EVENT_VIEWS.kinds]
    .filter(([, { type }]) => types.includes(type))
    .map(([code]) => code);
}

export const typeOf = (event: StoredEvent) => readEvent(EVENT_VIEWS.kinds, event).type;

/** Only the tape has `trade.printed`. The parties of a trade receive `match.created`. */
export const ACCOUNT_EVENT_TYPES = Object.keys(EVENT_VIEWS.views).filter(
  (type) => type !== "trade.printed",
);
