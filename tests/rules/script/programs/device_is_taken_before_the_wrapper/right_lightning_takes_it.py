from lightning.fabric import Fabric

fabric = Fabric(devices=8, strategy="fsdp")
fabric.launch()
model = fabric.setup_module(Net())
