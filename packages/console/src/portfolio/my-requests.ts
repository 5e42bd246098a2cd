import { useList } from "../session/session.tsx";

/** The user's open requests, of which there are fewer than a page holds. */
export function useMyRequests({ optional = false } = {}) {
  return useList(["my-requests"], (client) => client.rfq.myRequests({ limit: 200 }), { optional });
}
