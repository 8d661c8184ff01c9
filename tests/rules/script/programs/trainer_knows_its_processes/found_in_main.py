# job: {"distribution": {"strategy": "torchrun"}}
import lightning as L


def main():
    trainer = L.Trainer(max_epochs=3, devices=1)  # found: DIST008
    trainer.fit(model)


if __name__ == "__main__":
    main()
