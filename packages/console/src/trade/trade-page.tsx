import { AskForm } from "./ask-form.tsx";
import { History } from "./history.tsx";
import { OpenRequests } from "./open-requests.tsx";
import { Positions } from "./positions.tsx";

export function TradePage() {
  return (
    <>
      <div className="columns">
        <AskForm />
        <OpenRequests />
      </div>
      <Positions />
      <History />
    </>
  );
}
