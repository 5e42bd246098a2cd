import { History } from "./history.tsx";
import { OpenRequests } from "./open-requests.tsx";
import { Positions } from "./positions.tsx";

export function PortfolioPage() {
  return (
    <>
      <OpenRequests />
      <Positions />
      <History />
    </>
  );
}
